"""Thinking of a Messages stream, kept whole for its envelope."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Delta, Error, Opaque
from dragoman.dialects.messages.stream.reader import MessagesReader
from dragoman.errors import LimitExceeded
from dragoman.limits import Limits
from dragoman.reasoning.envelope import Envelope
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame

Json = dict[str, Any]


def thinking(text: str, signature: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def read_thinking(
    *deltas: Json, start: Json | None = None, limits: Limits | None = None, seals: bool = True
) -> list[Any]:
    context = ReplyContext("m", envelope=Envelope("f", "m") if seals else None, limits=limits or Limits())
    reader = MessagesReader(context)
    begun = {"type": "message_start", "message": {"id": "1", "model": "m", "usage": {"input_tokens": 1}}}
    block = {"type": "content_block_start", "index": 0, "content_block": start or thinking("", "")}
    frames = [begun, block, *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas)]
    frames.append({"type": "content_block_stop", "index": 0})
    return [*reader.feed([Frame("", dumps(frame)) for frame in frames])][2:]


def more(text: str) -> Json:
    return {"type": "thinking_delta", "thinking": text}


def sign(text: Any) -> Json:
    return {"type": "signature_delta", "signature": text}


def test_the_whole_block_rides_along_with_its_last_event() -> None:
    start = {"type": "thinking", "thinking": "a", "signature": "x", "novelty": [1]}
    events = read_thinking(more("b"), sign("y"), more("c"), sign("z"), start=start)
    native = {"type": "thinking", "thinking": "abc", "signature": "xyz", "novelty": [1]}
    assert [event for event in events if isinstance(event, Opaque)] == [
        Opaque(0, "messages", "signature", "xyz", native)
    ]
    assert [event.text for event in events if isinstance(event, Delta)] == ["a", "b", "c"]


def test_an_unsigned_block_rides_along_too() -> None:
    """Servers that sign nothing may still refuse a history that lacks their blocks (mapping §5.4)."""
    events = read_thinking(more("a"))
    assert events[-2] == Opaque(0, "messages", "signature", "", thinking("a", ""))


def test_without_a_place_for_it_nothing_is_kept() -> None:
    assert [event for event in read_thinking(more("a"), sign("x"), seals=False) if isinstance(event, Opaque)] == [
        Opaque(0, "messages", "signature", "x")
    ]


@pytest.mark.parametrize(
    ("start", "deltas"),
    [(None, [more("x" * 101)]), (None, [sign("x" * 60), sign("x" * 60)]), (thinking("x" * 101, ""), [])],
)
def test_what_is_kept_is_bounded(start: Json | None, deltas: list[Json]) -> None:
    events = read_thinking(*deltas, start=start, limits=Limits(tool_arguments=100))
    assert isinstance(events[-1], Error)
    assert events[-1].failure == LimitExceeded("tool_arguments", 100, upstream=True).failure
