"""Sessions with tools that move from one upstream to the next, in the form of each client dialect.

An official SDK reads each reply, streamed or whole, and what it read goes back in the next request as programs send it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from conformance.served import anthropic_sdk, openai_sdk
from conversations.script import PNG

Json = dict[str, Any]
TOOL = "look"
SCHEMA: Json = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
PLAN = (("a",), ("b", "c"), ("d",), ("e", "f"), ("g",), ("h",), ("i", "j"))
"""The names that the model looks at, one tuple a reply: two of a tuple are parallel calls."""
FAILED, PICTURED = "c", "e"
"""The look-ups that fail, and that return a picture."""


def result_of(at: str) -> str:
    """The text of a result."""
    return f"nothing at {at}" if at == FAILED else f"found {at} ✓"


def prompt() -> str:
    """The first words of the user, with the plan for the simulated model."""
    turns = (" + ".join(f"{TOOL} {json.dumps({'at': at})}" for at in turn) for turn in PLAN)
    return " ".join(["Do as planned.", *(f"[[call {turn}]]" for turn in turns)])


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply as its client reads it. `calls` are ids and look-ups; `end` is the stop reason."""

    text: str
    calls: list[tuple[str, str]]
    end: str | None


@dataclass(slots=True)
class Session(ABC):
    """A session of one client. `history` is what its next request has."""

    sdk: Any
    streamed: bool
    history: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state(prompt())

    def state(self, text: str) -> None:
        """Add words of the user."""
        self.history.append({"role": "user", "content": text})

    @abstractmethod
    async def ask(self, model: str) -> Answer:
        """Ask a model, and keep its reply. Raises APIError."""

    @abstractmethod
    def answer(self, calls: Iterable[tuple[str, str]]) -> None:
        """Add the results of calls."""


class ChatSession(Session):
    """`openai.chat.completions`. Reasoning goes back in its field, as some clients send it."""

    async def ask(self, model: str) -> Answer:
        options: Json = {
            "model": model,
            "messages": self.history,
            "tools": [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}],
            "reasoning_effort": "high",
        }
        if self.streamed:
            async with self.sdk.chat.completions.stream(**options) as stream:
                choice = (await stream.get_final_completion()).choices[0]
        else:
            choice = (await self.sdk.chat.completions.create(**options)).choices[0]
        message, calls = choice.message, choice.message.tool_calls or []
        kept: Json = {"role": "assistant", "content": message.content}
        if reasoning := getattr(message, "reasoning_content", None):
            kept["reasoning_content"] = reasoning
        if calls:
            kept["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in calls
            ]
        self.history.append(kept)
        found = [(call.id, json.loads(call.function.arguments)["at"]) for call in calls]
        return Answer(message.content or "", found, choice.finish_reason)

    def answer(self, calls: Iterable[tuple[str, str]]) -> None:
        calls = list(calls)
        self.history += [{"role": "tool", "tool_call_id": name, "content": result_of(at)} for name, at in calls]
        if any(at == PICTURED for _, at in calls):
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
            self.history.append({"role": "user", "content": [{"type": "text", "text": "It is this:"}, picture]})


class MessagesSession(Session):
    """`anthropic.messages`. All blocks of a reply go back."""

    async def ask(self, model: str) -> Answer:
        options: Json = {
            "model": model,
            "messages": self.history,
            "max_tokens": 9000,
            "tools": [{"name": TOOL, "input_schema": SCHEMA}],
            "thinking": {"type": "adaptive", "display": "summarized"},
        }
        if self.streamed:
            async with self.sdk.messages.stream(**options) as stream:
                reply = await stream.get_final_message()
        else:
            reply = await self.sdk.messages.create(**options)
        self.history.append({"role": "assistant", "content": reply.content})
        text = "".join(block.text for block in reply.content if block.type == "text")
        calls = [(block.id, block.input["at"]) for block in reply.content if block.type == "tool_use"]
        return Answer(text, calls, reply.stop_reason)

    def answer(self, calls: Iterable[tuple[str, str]]) -> None:
        content: list[Json] = []
        for name, at in calls:
            result: Json = {"type": "tool_result", "tool_use_id": name, "content": result_of(at)}
            if at == FAILED:
                result["is_error"] = True
            if at == PICTURED:
                source = {"type": "base64", "media_type": "image/png", "data": PNG}
                result["content"] = [{"type": "text", "text": result_of(at)}, {"type": "image", "source": source}]
            content.append(result)
        self.history.append({"role": "user", "content": content})


class ResponsesSession(Session):
    """`openai.responses`. All items of a response go back, with encrypted reasoning."""

    async def ask(self, model: str) -> Answer:
        options: Json = {
            "model": model,
            "input": self.history,
            "tools": [{"type": "function", "name": TOOL, "parameters": SCHEMA, "strict": False}],
            "store": False,
            "reasoning": {"effort": "high", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
        }
        if self.streamed:
            async with self.sdk.responses.stream(**options) as stream:
                reply = await stream.get_final_response()
        else:
            reply = await self.sdk.responses.create(**options)
        items = [item.to_dict(warnings=False) for item in reply.output]
        for item in items:
            item.pop("parsed_arguments", None)  # the helper's own
        self.history += items
        calls = [
            (item["call_id"], json.loads(item["arguments"])["at"]) for item in items if item["type"] == "function_call"
        ]
        return Answer(reply.output_text, calls, reply.status)

    def answer(self, calls: Iterable[tuple[str, str]]) -> None:
        for name, at in calls:
            output: Any = result_of(at)
            if at == PICTURED:
                picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
                output = [{"type": "input_text", "text": result_of(at)}, picture]
            self.history.append({"type": "function_call_output", "call_id": name, "output": output})


@asynccontextmanager
async def session(client: str, url: str, *, streamed: bool) -> AsyncIterator[Session]:
    """A session of a client at a gateway."""
    if client == "messages":
        async with anthropic_sdk(url) as sdk:
            yield MessagesSession(sdk, streamed)
    else:
        async with openai_sdk(url) as sdk:
            yield ChatSession(sdk, streamed) if client == "chat" else ResponsesSession(sdk, streamed)
