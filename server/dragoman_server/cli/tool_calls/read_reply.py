"""A reader of streams that takes whatever a host sends, and records what a strict reader would fail on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dragoman import Dialect
from dragoman.gateway import redact
from dragoman.wire import Json, SSEFrame, json_loads


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
