"""The heartbeat as an event: its form, its place in the numbers, and what it replaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, Knobs, direction
from dragoman.canonical.events import Ping
from dragoman.dialects.responses.stream.keepalive import keepalive_frame, keepalive_payload
from dragoman.dialects.responses.stream.writer import ResponsesWriter
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.reply_context import ReplyContext
from oracles.grammar import sse
from support.directions import translated
from support.samples import messages_frame, text_stream
from support.verdicts import verdict

EVENTS = Knobs(heartbeats="event")
COMMENT = b": keep-alive\n\n"
SILENT = {"chat": COMMENT, "messages": messages_frame("ping"), "responses": COMMENT}


def test_its_form_is_that_of_openais_service() -> None:
    assert keepalive_frame(7) == b"event: keepalive\ndata: " + keepalive_payload(7) + b"\n\n"
    assert json.loads(keepalive_payload(7)) == {"type": "keepalive", "sequence_number": 7}


def play(upstream: Any, knobs: Knobs, silent: bytes, size: int = 0) -> bytes:
    frames = text_stream(Dialect(upstream))
    stream = b"".join([*frames[:2], silent, *frames[2:4], silent, *frames[4:]])
    machine = translated(direction("responses", upstream), knobs=knobs).stream_machine()
    out = b"".join(machine.feed(stream[at : at + (size or 10**6)]) for at in range(0, len(stream), size or 10**6))
    return out + machine.finish()


@pytest.mark.parametrize("size", [0, 1, 13])
@pytest.mark.parametrize("silent", [None, b": \xe2\x80\xa6\n\n", b":\r\n\r\n"], ids=["usual", "words", "CRLF"])
@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_a_comment_of_the_upstream_becomes_the_event_too(upstream: str, silent: bytes | None, size: int) -> None:
    """It is a sign of life for the gateway, which then sends none of its own."""
    out = play(upstream, EVENTS, SILENT[upstream] if silent is None else silent, size)
    items = sse.written(out.replace(b"\n\n\n", b"\n\n"))  # the second half of a CR LF is passed on
    assert all(item.data is not None for item in items)
    events = [json.loads(item.data or b"") for item in items]
    kinds = [event["type"] for event in events]
    assert kinds.count("keepalive") == 2
    assert kinds[-1] == "response.completed"
    numbers = [event["sequence_number"] for event in events]
    assert numbers == (sorted(numbers) if upstream == "responses" else list(range(len(numbers))))


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_others_get_comments(upstream: str) -> None:
    silent = SILENT[upstream]
    assert b"keepalive" not in play(upstream, DEFAULT_KNOBS, silent)
    assert play(upstream, DEFAULT_KNOBS, silent).count(COMMENT) == 2


def test_a_heartbeat_before_the_response_is_a_comment() -> None:
    """`response.created` has the number 0."""
    writer = ResponsesWriter(ReplyContext("m", knobs=EVENTS))
    (frame,) = writer.feed([Ping()])
    assert frame.data is None  # type: ignore[union-attr]


def test_a_validated_stream_may_have_them() -> None:
    assert verdict("responses", play("chat", EVENTS, COMMENT)) is None
