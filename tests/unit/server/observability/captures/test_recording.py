"""The recording of one exchange: what it keeps, and its limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from dragoman.dialects import Dialect
from dragoman_server.observability.captures.recording import Budget, Readings, binary_type
from support.recordings import recorded, recording


def test_a_budget_is_shared_by_all_bodies() -> None:
    budget = Budget(10)
    assert budget.take(b"123456") == b"123456"
    assert not budget.exceeded
    assert budget.take(b"123456") == b"1234"
    assert budget.exceeded
    assert budget.take(b"1") == b""
    assert budget.take(b"") == b""


def test_pieces_keep_references_and_times() -> None:
    made = recording()
    data = b"x" * 100
    made.wrote(data)
    made.wrote(b"")
    assert made.reply.data[0] is data
    assert (made.reply.size, made.reply.times) == (100, [1.0])


def test_each_attempt_has_its_own_clock_readings() -> None:
    made = recorded(Dialect.RESPONSES, Dialect.CHAT, [])
    assert made.translation is not None
    first = made.readings
    assert first is not None
    assert made.translation.context.clock is first
    assert made.translation.context.clock() == 9.0
    assert first.values == [9.0]
    made.translated(made.translation)
    assert made.readings is not first
    assert Readings(lambda: 3.0)() == 3.0


def test_heartbeats_are_limited() -> None:
    made = recording()
    for _ in range(1100):
        made.beat()
    assert len(made.heartbeats) == 1000


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", ""),
        ("application/problem+JSON; charset=utf-8", ""),
        ("text/event-stream; charset=utf-8", ""),
        ("Text/Plain", ""),
        ("audio/mpeg", "audio/mpeg"),
        ("Image/PNG; q=1", "image/png"),
        ("multipart/form-data; boundary=x", "multipart/form-data"),
        ("application/x-ndjson", ""),
        ("", "application/octet-stream"),
        (" ; x", "application/octet-stream"),
    ],
)
def test_bodies_that_are_no_texts_are_known_by_their_type(content_type: str, expected: str) -> None:
    assert binary_type(content_type) == expected


def test_of_a_body_that_is_omitted_nothing_is_kept_but_its_size() -> None:
    made = recording(10)
    made.reply.omitted = "audio/mpeg"
    for _ in range(5):
        made.wrote(b"x" * 100)
    assert (made.reply.size, made.reply.data, made.reply.times, made.truncated) == (500, [], [], False)


async def test_a_body_that_is_measured_passes_in_its_pieces() -> None:
    ended: list[bool] = []

    async def body() -> AsyncGenerator[bytes, None]:
        try:
            for piece in (b"123", b"4567"):
                yield piece
        finally:
            ended.append(True)

    made = recording(2)
    assert [piece async for piece in made.measured(body(), "multipart/form-data")] == [b"123", b"4567"]
    assert (made.request_size, made.request_omitted, made.request_body) == (7, "multipart/form-data", None)
    left = made.measured(body(), "multipart/form-data")
    assert await anext(left) == b"123"
    await left.aclose()
    assert ended == [True, True]
    assert not made.truncated
