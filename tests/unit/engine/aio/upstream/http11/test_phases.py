"""The phases of an upstream connection: a table that is complete, and the only code that changes a phase."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman.aio.upstream.http11 as http11
from dragoman.aio.upstream.http11.phases import TRANSITIONS, ConnectionEvent, ConnectionPhase
from dragoman.errors import StreamTruncated
from support.raw_connections import HEAD, WHOLE, bench, chunk

PHASES: tuple[ConnectionPhase, ...] = get_args(ConnectionPhase)


def test_every_phase_has_a_row_and_can_be_reached_and_closed() -> None:
    assert set(TRANSITIONS) == set(PHASES)
    reached: set[ConnectionPhase] = {"NEW"}
    for _ in PHASES:
        reached |= {following for phase in reached for following in TRANSITIONS[phase].values()}
    assert reached == set(PHASES)
    assert all(row["close"] == "CLOSED" for phase, row in TRANSITIONS.items() if phase != "NEW")
    assert set(TRANSITIONS["CLOSED"]) == {"close"}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("event", get_args(ConnectionEvent))
async def test_an_event_moves_by_the_table_or_is_an_error(phase: ConnectionPhase, event: ConnectionEvent) -> None:
    async with bench() as made:
        connection = await made.connect()
        connection.phase, before = phase, connection.phase
        following = TRANSITIONS[phase].get(event)
        if following is None:
            with pytest.raises(KeyError):
                connection._advance(event)
            assert connection.phase == phase
        else:
            connection._advance(event)
            assert connection.phase == following
        connection.phase = before


def test_a_phase_is_assigned_in_one_place() -> None:
    """Besides the first one, in `__init__`."""
    places = [
        function.name
        for path in Path(http11.__file__).parent.glob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "phase" and isinstance(node.ctx, ast.Store)
    ]
    assert sorted(places) == ["__init__", "_advance"]


ACTIONS = ("request", "head", "body", "end", "junk", "eof", "lost", "fail", "release", "finish", "abort")
BYTES = {"head": HEAD, "body": chunk(b"x"), "end": b"0\r\n\r\n", "junk": b"\x00\r\n\r\n", "request": b""}


@given(st.lists(st.sampled_from(ACTIONS), max_size=12))
async def test_no_sequence_of_calls_meets_an_event_that_the_table_does_not_expect(actions: list[str]) -> None:
    async with bench() as made:
        connection = await made.connect()
        for action in actions:
            if made.wires[0].closed and action not in ("request", "fail", "release", "finish", "abort"):
                continue  # the event loop reports nothing after the end
            if action == "request":
                connection.send(b"head", b"body")
            elif action in BYTES:
                connection.data_received(BYTES[action])
            elif action == "eof":
                connection.eof_received()
            elif action == "lost":
                made.wires[0].lose()
            elif action == "fail":
                connection.fail(StreamTruncated("failed by the test"))
            elif action == "abort":
                connection.abort()
            elif connection.phase not in ("IDLE", "DRAINING"):
                connection.release(finish=action == "finish")
            assert connection.phase in repr(connection)


async def test_the_representation_shows_phase_and_counters() -> None:
    async with bench() as made:
        assert repr(made.pool) == "<Pool http://upstream.test:80 busy=0 idle=0 waiting=0>"
        answer, connection = await made.answer(WHOLE)
        assert repr(connection) == "<Connection ENDED status=200 unread=40>"
        assert repr(made.pool).endswith(" busy=1 idle=0 waiting=0>")
        await answer.read(9)
        await answer.close()
        assert repr(connection).startswith("<Connection IDLE ")
        assert repr(made.pool).endswith(" busy=0 idle=1 waiting=0>")
    assert repr(made.pool).endswith(" closed>")
