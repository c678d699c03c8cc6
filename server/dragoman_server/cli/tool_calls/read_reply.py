"""A reader of streams that takes whatever a host sends, and records what a strict reader would fail on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman import Dialect
from dragoman.gateway import redact
from dragoman.wire import Json, SSEFrame, json_loads

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields in which hosts of Chat Completions send reasoning."""


@dataclass(slots=True)
class SeenCall:
    """A tool call, as far as it arrived."""

    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class SeenReply:
    """The parts of a stream by which a tool call is judged."""

    calls: dict[int, SeenCall] = field(default_factory=dict)
    """The calls by their index, -1 for one that is no number."""
    text: str = ""
    stop: str = ""
    usage: bool = False
    usage_with_choices: bool = False
    """Chat: True if a chunk with choices had the token counts."""
    reasoning: dict[str, None] = field(default_factory=dict)
    """Chat: the fields that had reasoning, in the order of their first use; `thinking` is a part of the content."""
    signed: bool = False
    """Chat: True if a call had Google's signature."""
    error: str = ""
    ended: bool = False
    """True if the last frame of the dialect came."""
    unreadable: str = ""
    """The first frame that is not JSON, or no object."""

    def mask(self, secrets: Sequence[str]) -> None:
        """Mask keys in all texts, as a host may repeat the one that it got."""
        for name in ("text", "stop", "error", "unreadable"):
            setattr(self, name, redact(getattr(self, name), secrets))
        for call in self.calls.values():
            for name in ("id", "name", "arguments"):
                setattr(call, name, redact(getattr(call, name), secrets))


def read_reply(dialect: Dialect, frames: Iterable[SSEFrame]) -> SeenReply:
    """Read the frames of a stream."""
    reply, read = SeenReply(), _READERS[dialect]
    for frame in frames:
        if frame.data is None:
            continue
        if frame.data.strip() == b"[DONE]":
            reply.ended = True
            continue
        try:
            data = json_loads(frame.data)
        except ValueError:
            data = None
        if isinstance(data, dict):
            read(data, reply)
        else:
            reply.unreadable = reply.unreadable or frame.data.decode("utf-8", "replace")
    return reply


def error_message(body: bytes) -> str:
    """Return the message of an error response, in any of the forms that are common, else its text."""
    try:
        data = json_loads(body)
    except ValueError:
        data = None
    return _message(data) or body.decode("utf-8", "replace").strip()


def _message(data: Any) -> str:
    error = _object(data)
    inner = error.get("error", error)
    if isinstance(inner, str):
        return inner
    message = _object(inner).get("message") or error.get("message")
    return message if isinstance(message, str) else ""


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(value: Any) -> int:
    return value if type(value) is int else -1


def _chat(chunk: Json, reply: SeenReply) -> None:
    if chunk.get("error"):
        reply.error = _message(chunk) or "an error without a message"
        return
    choices = _objects(chunk.get("choices"))
    if chunk.get("usage"):
        reply.usage = True
        reply.usage_with_choices |= bool(choices)
    for choice in choices:
        delta = _object(choice.get("delta"))
        for name in _REASONING:
            if delta.get(name):
                reply.reasoning[name] = None
        content = delta.get("content")
        reply.text += _text(content)
        for part in _objects(content):
            if part.get("type") == "thinking":
                reply.reasoning["thinking"] = None
            reply.text += _text(part.get("text"))
        for number, piece in enumerate(_objects(delta.get("tool_calls"))):
            call = reply.calls.setdefault(_index(piece.get("index", number)), SeenCall())
            function = _object(piece.get("function"))
            call.id = call.id or _text(piece.get("id"))
            call.name = call.name or _text(function.get("name"))
            call.arguments += _text(function.get("arguments"))
            reply.signed |= bool(_object(_object(piece.get("extra_content")).get("google")).get("thought_signature"))
        reply.stop = _text(choice.get("finish_reason")) or reply.stop


def _messages(event: Json, reply: SeenReply) -> None:
    block, delta = _object(event.get("content_block")), _object(event.get("delta"))
    match event.get("type"):
        case "content_block_start" if block.get("type") == "tool_use":
            reply.calls[_index(event.get("index"))] = SeenCall(_text(block.get("id")), _text(block.get("name")))
        case "content_block_delta":
            reply.text += _text(delta.get("text"))
            if (call := reply.calls.get(_index(event.get("index")))) is not None:
                call.arguments += _text(delta.get("partial_json"))
        case "message_delta":
            reply.stop = _text(delta.get("stop_reason")) or reply.stop
            reply.usage |= bool(_object(event.get("usage")).get("output_tokens"))
        case "message_stop":
            reply.ended = True
        case "error":
            reply.error = _message(event) or "an error without a message"


def _responses(event: Json, reply: SeenReply) -> None:
    item, response = _object(event.get("item")), _object(event.get("response"))
    match event.get("type"):
        case "response.output_item.added" if item.get("type") == "function_call":
            call = SeenCall(_text(item.get("call_id")), _text(item.get("name")), _text(item.get("arguments")))
            reply.calls[_index(event.get("output_index"))] = call
        case "response.function_call_arguments.delta" if _index(event.get("output_index")) in reply.calls:
            reply.calls[_index(event.get("output_index"))].arguments += _text(event.get("delta"))
        case "response.output_item.done" if item.get("type") == "function_call":
            # Complete, whatever came before: some hosts send no deltas.
            call = reply.calls.setdefault(_index(event.get("output_index")), SeenCall())
            call.id = _text(item.get("call_id")) or call.id
            call.name = _text(item.get("name")) or call.name
            call.arguments = _text(item.get("arguments")) or call.arguments
        case "response.output_text.delta":
            reply.text += _text(event.get("delta"))
        case "response.completed" | "response.incomplete":
            reply.stop, reply.ended = str(event.get("type")).removeprefix("response."), True
            reply.usage = bool(_object(response.get("usage")).get("output_tokens"))
        case "response.failed":
            reply.error, reply.ended = _message(response) or "an error without a message", True
        case "error":
            reply.error = _message(event) or "an error without a message"


_READERS = {Dialect.CHAT: _chat, Dialect.MESSAGES: _messages, Dialect.RESPONSES: _responses}
