"""Content of a stream, assembled without the engine, so that the client's and the upstream's side can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect
from dragoman.wire import SSEFrame, json_dumps, json_loads


@dataclass(slots=True)
class ShownCall:
    """A tool call as far as it arrived.

    `complete` is set by the event or finish reason that completes it. The arguments of a `custom` tool are free text.
    """

    name: str
    arguments: str = ""
    complete: bool = False
    namespace: str | None = None
    custom: bool = False

    def sent(self) -> tuple[str, str]:
        """Return name and JSON arguments as sent in a dialect that has only plain functions."""
        name = f"{self.namespace}__{self.name}" if self.namespace else self.name
        return name, json_dumps({"input": self.arguments}).decode() if self.custom else self.arguments

    def __str__(self) -> str:
        name = f"{self.namespace}.{self.name}" if self.namespace else self.name
        return f"{name}({json_dumps(self.arguments).decode() if self.custom else self.arguments})"


@dataclass(slots=True)
class Transcript:
    """An assembled reply. `order` lists the call index of each fragment of arguments, in order of arrival."""

    reasoning: str = ""
    text: str = ""
    calls: dict[int, ShownCall] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    stop: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    ended: bool = False

    def content(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Return the content, which must be equal on both sides."""
        return self.reasoning, self.text, [call.sent() for call in self.calls.values()]

    def tokens(self) -> tuple[int, int] | None:
        """Return total input and output tokens, or None if there is no usage."""
        usage = self.usage
        if usage is None:
            return None
        if "prompt_tokens" in usage:
            return usage["prompt_tokens"], usage["completion_tokens"]
        if "input_tokens_details" in usage:  # Responses: input_tokens includes cached tokens
            return usage["input_tokens"], usage["output_tokens"]
        cached = (usage.get("cache_read_input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0)
        return (usage.get("input_tokens") or 0) + cached, usage["output_tokens"]


def read_transcript(dialect: Dialect, frames: Iterable[SSEFrame]) -> Transcript:
    """Return the transcript of a stream's frames."""
    out = Transcript()
    read = _READ[dialect]
    for frame in frames:
        if frame.data == b"[DONE]":
            out.ended = True
        elif frame.data is not None:
            read(json_loads(frame.data), out)
    return out


def _chat(chunk: dict[str, Any], out: Transcript) -> None:
    if "error" in chunk:
        out.error = chunk["error"]["message"]
        return
    out.usage = chunk.get("usage") or out.usage
    for choice in chunk["choices"]:
        delta = choice["delta"]
        out.reasoning += delta.get("reasoning_content") or ""
        out.text += delta.get("content") or ""
        for piece in delta.get("tool_calls") or ():
            index, function = piece["index"], piece["function"]
            call = out.calls.setdefault(index, ShownCall(function.get("name", "")))
            if function.get("arguments"):
                call.arguments += function["arguments"]
                out.order.append(index)
        if choice.get("finish_reason"):
            out.stop = choice["finish_reason"]
            for call in out.calls.values():
                call.complete = True


def _messages(event: dict[str, Any], out: Transcript) -> None:
    match event["type"]:
        case "message_start":
            out.usage = dict(event["message"]["usage"])
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            out.calls[event["index"]] = ShownCall(event["content_block"]["name"])
        case "content_block_delta":
            delta = event["delta"]
            out.reasoning += delta.get("thinking", "")
            out.text += delta.get("text", "")
            if delta.get("partial_json"):
                out.calls[event["index"]].arguments += delta["partial_json"]
                out.order.append(event["index"])
        case "content_block_stop" if event["index"] in out.calls:
            out.calls[event["index"]].complete = True
        case "message_delta":
            out.stop = event["delta"]["stop_reason"]
            out.usage = {**(out.usage or {}), **event["usage"]}
        case "message_stop":
            out.ended = True
        case "error":
            out.error = event["error"]["message"]


def _responses(event: dict[str, Any], out: Transcript) -> None:
    match event["type"]:
        case "response.output_item.added" if event["item"]["type"] in ("function_call", "custom_tool_call"):
            item = event["item"]
            custom = item["type"] == "custom_tool_call"
            out.calls[event["output_index"]] = ShownCall(item["name"], namespace=item.get("namespace"), custom=custom)
        case "response.output_text.delta":
            out.text += event["delta"]
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            out.reasoning += event["delta"]
        case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
            out.calls[event["output_index"]].arguments += event["delta"]
            out.order.append(event["output_index"])
        case "response.output_item.done" if event["output_index"] in out.calls:
            # Clients run a free-text call after `.done`, whatever its status.
            call = out.calls[event["output_index"]]
            call.complete = call.custom or event["item"]["status"] == "completed"
        case "response.completed" | "response.incomplete":
            out.stop, out.usage = event["response"]["status"], event["response"]["usage"]
            out.ended = True
        case "response.failed":
            out.error = event["response"]["error"]["message"]
        case "error":
            out.error = event.get("error", event)["message"]  # nested on the wire, flat in the published schema


_READ = {Dialect.CHAT: _chat, Dialect.MESSAGES: _messages, Dialect.RESPONSES: _responses}
