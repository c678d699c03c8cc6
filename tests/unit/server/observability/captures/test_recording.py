"""The recording of one exchange: what it keeps, and its limit."""

from __future__ import annotations

from dragoman.dialects import Dialect
from dragoman_server.observability.captures.recording import Budget, Readings
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
