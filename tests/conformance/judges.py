"""Ask through an SDK and judge every event on the way.

The SDKs build their models without validation, so each raw event is validated here, strictly, by the SDK's own types;
and what the deltas add up to is compared with the SDK's final snapshot.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
from anthropic.lib.streaming import AsyncMessageStream
from anthropic.types import Message, RawMessageStreamEvent
from openai.lib.streaming.chat import AsyncChatCompletionStream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import TypeAdapter

WEATHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TIME: dict[str, Any] = {"type": "object", "properties": {"tz": {"type": "string"}}, "required": ["tz"]}
MESSAGES_TOOLS: list[Any] = [
    {"name": "get_weather", "description": "The weather", "input_schema": WEATHER},
    {"name": "get_time", "description": "The time", "input_schema": TIME},
]
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "get_time", "description": "The time", "parameters": TIME}},
]
HI: list[Any] = [{"role": "user", "content": "Hi"}]
ANSWER = "You said: Hi. Grüße 👋🏽 aus 東京\u2028— done."
REASONING = "The user needs a look-up – naïvely, one call. 🤔"
REFUSED = "I can't help with that."

_RAW: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
_DERIVED = {"text", "input_json", "thinking", "signature", "citation"}
_PIECE = {"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"}


async def messages_events(stream: AsyncMessageStream[Any], into: list[Any]) -> None:
    """Read a stream to its end, each event validated and put `into`; raises what the SDK raises."""
    async for event in stream:
        into.append(event)
        if event.type not in _DERIVED:
            raw = event.to_dict(warnings=False)
            raw.pop("message", None) if event.type == "message_stop" else None
            raw.pop("content_block", None) if event.type == "content_block_stop" else None
            _RAW.validate_python(raw, strict=True)


async def ask_claude(
    client: anthropic.AsyncAnthropic, *, streamed: bool, into: list[Any] | None = None, **asked: Any
) -> Message:
    """One Messages request; the reply streamed and judged, or whole. `into` takes the stream's events."""
    asked.setdefault("max_tokens", 256)
    asked.setdefault("messages", HI)
    if not streamed:
        whole: Message = await client.messages.create(**asked)
        Message.model_validate(whole.to_dict(), strict=True)
        return whole
    events: list[Any] = [] if into is None else into
    async with client.messages.stream(**asked) as stream:
        await messages_events(stream, events)
        final: Message = await stream.get_final_message()
    judge_messages(events, final)
    return final


def judge_messages(events: list[Any], final: Message) -> None:
    """The deltas of each block add up to the final snapshot's."""
    assert events[0].type == "message_start"
    assert events[-1].type == "message_stop"
    assert [event.type for event in events].count("message_delta") == 1
    starts = [event for event in events if event.type == "content_block_start"]
    stops = [event.index for event in events if event.type == "content_block_stop"]
    assert [event.index for event in starts] == list(range(len(final.content)))
    assert sorted(stops) == list(range(len(final.content))), "each block is closed, once"
    pieces: dict[int, str] = dict.fromkeys(range(len(final.content)), "")
    for event in events:
        if event.type == "content_block_delta" and event.delta.type in _PIECE:
            pieces[event.index] += getattr(event.delta, _PIECE[event.delta.type])
    for start, (index, added), block in zip(starts, pieces.items(), final.content, strict=True):
        assert start.content_block.type == block.type
        if block.type == "text":
            assert start.content_block.text == ""
            assert block.text == added
        elif block.type == "thinking":
            assert (start.content_block.thinking, block.thinking) == ("", added)
        elif block.type == "tool_use":
            assert start.content_block.input == {}
            assert (start.content_block.id, start.content_block.name) == (block.id, block.name)
            if final.stop_reason == "tool_use":
                assert block.input == json.loads(added or "{}"), f"block {index}"


async def chat_events(stream: AsyncChatCompletionStream[Any], into: list[Any]) -> None:
    """Read a stream to its end, each chunk validated, each event put `into`; raises what the SDK raises."""
    async for event in stream:
        into.append(event)
        if event.type == "chunk":
            ChatCompletionChunk.model_validate(event.chunk.to_dict(warnings=False), strict=True)


async def ask_gpt(
    client: openai.AsyncOpenAI, *, streamed: bool, into: list[Any] | None = None, **asked: Any
) -> ChatCompletion:
    """One Chat request; the reply streamed (with usage) and judged, or whole. `into` takes the stream's events."""
    asked.setdefault("messages", HI)
    if not streamed:
        whole: ChatCompletion = await client.chat.completions.create(**asked)
        ChatCompletion.model_validate(whole.to_dict(), strict=True)
        return whole
    events: list[Any] = [] if into is None else into
    asked.setdefault("stream_options", {"include_usage": True})
    async with client.chat.completions.stream(**asked) as stream:
        await chat_events(stream, events)
        # get_final_completion() raises on a reply that was cut, by design: the snapshot is what was accumulated.
        final: ChatCompletion = stream.current_completion_snapshot
    judge_chat([event.chunk for event in events if event.type == "chunk"], final)
    return final


def judge_chat(chunks: list[ChatCompletionChunk], final: ChatCompletion, *, counted: bool = True) -> None:
    """The deltas add up to the final snapshot; each field that clients concatenate comes once.

    `counted`: the upstream's counts are known, so the usage chunk that was asked for comes, last.
    """
    assert {(chunk.id, chunk.model, chunk.created) for chunk in chunks} == {(final.id, final.model, final.created)}
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert [chunk.usage is not None for chunk in chunks] == [False] * len(choices) + [True] * counted
    assert [bool(chunk.choices) for chunk in chunks] == [True] * len(choices) + [False] * counted
    assert [choice.finish_reason for choice in choices[:-1]] == [None] * (len(choices) - 1)
    message = final.choices[0].message
    assert choices[-1].finish_reason == final.choices[0].finish_reason is not None
    assert [choice.delta.role for choice in choices if choice.delta.role] == ["assistant"]
    for field in ("content", "refusal", "reasoning_content"):
        added = "".join(getattr(choice.delta, field, None) or "" for choice in choices)
        assert (getattr(message, field, None) or "") == added, field
    calls: dict[int, list[str]] = {}
    for choice in choices:
        for call in choice.delta.tool_calls or []:
            assert call.function is not None
            if call.index not in calls:
                assert call.id
                assert call.function.name
                calls[call.index] = [call.id, call.function.name, ""]
            else:
                assert (call.id, call.function.name) == (None, None), "sent once: the SDK concatenates them"
            calls[call.index][2] += call.function.arguments or ""
    assert list(calls) == list(range(len(calls)))
    assert list(calls.values()) == [list(call) for call in chat_calls(final)]


def chat_calls(reply: ChatCompletion) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call."""
    calls = reply.choices[0].message.tool_calls or []
    return [(call.id, call.function.name, call.function.arguments) for call in calls if call.type == "function"]


def messages_calls(reply: Message) -> list[tuple[str, str, Any]]:
    """(id, name, input) of each call."""
    return [(block.id, block.name, block.input) for block in reply.content if block.type == "tool_use"]


def shown(reply: Message) -> str:
    """The visible text."""
    return "".join(block.text for block in reply.content if block.type == "text")
