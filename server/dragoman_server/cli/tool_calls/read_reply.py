"""A reader of streams that takes whatever a host sends, and records what a strict reader would fail on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dragoman import Dialect
from dragoman.gateway import redact
from dragoman.wire import Json, SSEFrame, json_dumps, json_loads


@dataclass(slots=True)
class SeenCall:
    """A tool call, as far as it arrived. The arguments of a `custom` tool are free text.

    `complete` is set by the event or the stop reason that completes it.
    """

    id: str = ""
    name: str = ""
    arguments: str = ""
    namespace: str = ""
    custom: bool = False
    complete: bool = False

    def as_function(self) -> tuple[str, str]:
        """Return name and JSON arguments as sent in a dialect that has only plain functions."""
        name = f"{self.namespace}__{self.name}" if self.namespace else self.name
        return name, json_dumps({"input": self.arguments}).decode() if self.custom else self.arguments

    def __str__(self) -> str:
        name = f"{self.namespace}.{self.name}" if self.namespace else self.name
        return f"{name}({json_dumps(self.arguments).decode() if self.custom else self.arguments})"


@dataclass(slots=True)
class SeenReply:
    """The parts of a stream by which a tool call is judged, and two sides of a translation are compared."""

    calls: dict[int, SeenCall] = field(default_factory=dict)
    """The calls by their index, -1 for one that is no number."""
    order: list[int] = field(default_factory=list)
    """The index of the call of each fragment of arguments, in order of arrival."""
    text: str = ""
    reasoning_text: str = ""
    """The text of the reasoning."""
    stop: str = ""
    usage: bool = False
    counts: Json = field(default_factory=dict)
    """The token counts, as the dialect has them."""
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
        for name in ("text", "reasoning_text", "stop", "error", "unreadable"):
            setattr(self, name, redact(getattr(self, name), secrets))
        for call in self.calls.values():
            for name in ("id", "name", "arguments"):
                setattr(call, name, redact(getattr(call, name), secrets))

    def content(self) -> tuple[str, str, list[tuple[str, str]]]:
        """Return reasoning, text and calls, which are equal on both sides of a translation."""
        return self.reasoning_text, self.text, [call.as_function() for call in self.calls.values()]

    def tokens(self) -> tuple[int, int] | None:
        """Return total input and output tokens, or None if there are no counts."""
        counts = self.counts
        if not counts:
            return None
        if "promptTokenCount" in counts:  # Gemini: thinking is not among the candidates
            candidates, reasoning = counts.get("candidatesTokenCount", 0), counts.get("thoughtsTokenCount", 0)
            return counts["promptTokenCount"], candidates + reasoning
        if "prompt_tokens" in counts:
            return counts["prompt_tokens"], counts["completion_tokens"]
        if "input_tokens_details" in counts:  # Responses: input_tokens includes cached tokens
            return counts["input_tokens"], counts["output_tokens"]
        cached = (counts.get("cache_read_input_tokens") or 0) + (counts.get("cache_creation_input_tokens") or 0)
        return (counts.get("input_tokens") or 0) + cached, counts["output_tokens"]

    def add_arguments(self, index: int, piece: str) -> None:
        """Add a fragment of the arguments of the call with this index."""
        if piece:
            self.calls[index].arguments += piece
            self.order.append(index)


def read_reply(dialect: Dialect, frames: Iterable[SSEFrame]) -> SeenReply:
    """Read the frames of a stream."""
    reply, read = SeenReply(), import_module(f"dragoman_server.cli.tool_calls.{dialect}").read
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
    return message_of(data) or body.decode("utf-8", "replace").strip()


def message_of(data: Any) -> str:
    """Return the message of an error, in any of the forms that are common; empty without one."""
    error = object_of(data)
    inner = error.get("error", error)
    if isinstance(inner, str):
        return inner
    message = object_of(inner).get("message") or error.get("message")
    return message if isinstance(message, str) else ""


def object_of(value: Any) -> Json:
    """Return an object, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Json]:
    """Return the objects of a list, none for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """Return a text, an empty one for any other value."""
    return value if isinstance(value, str) else ""


def index_of(value: Any) -> int:
    """Return an index, -1 for any other value."""
    return value if type(value) is int else -1
