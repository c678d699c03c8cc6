"""Chunks of an upstream Chat stream, and the events that the reader makes of them."""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.events import (
    BlockStart,
    Delta,
    Error,
    Event,
    Start,
)
from dragoman.dialects.chat.stream.reader import ChatReader as Reader
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame

Json = dict[str, Any]
BEFORE: list[Event] = [Start("chatcmpl-x", "m", None, 1), BlockStart(0, "text"), Delta(0, "Hel")]


def chunk(*choices: Json, **extra: Any) -> Json:
    head = {"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": list(choices), **extra}


def piece(delta: Json, finish: str | None = None, **extra: Any) -> Json:
    return chunk({"index": 0, "delta": delta, "finish_reason": finish, **extra})


def tool(**fragment: Any) -> Json:
    return piece({"tool_calls": [fragment]})


def call(index: int, call_id: str, name: str, arguments: str = "") -> Json:
    return tool(index=index, id=call_id, type="function", function={"name": name, "arguments": arguments})


ROLE = piece({"role": "assistant", "content": ""})
HEL = piece({"content": "Hel"})


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req", **settings)


def read(*frames: Json | str, into: ReplyContext | None = None, eof: bool = True) -> list[Event]:
    reader = Reader(into or context())
    batch = [Frame("", (frame if isinstance(frame, str) else json.dumps(frame)).encode()) for frame in frames]
    events = reader.feed(batch)
    return events + (reader.finish() if eof else [])


def failed(events: list[Event], *before: Event) -> str:
    """The message of the error at the end; all that came before it must be kept."""
    last = events[-1]
    assert isinstance(last, Error)
    assert events[:-1] == list(before)
    assert last.failure.status == 502
    return last.failure.message
