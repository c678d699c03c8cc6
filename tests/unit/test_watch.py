"""The watch of a reply, on a clock by hand: what it notices, never early and at most a quarter late."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dragoman.aio.stream_timers import ClientGone, StreamTimers, ToolStallDetector
from dragoman.aio.timeouts import Timeouts
from dragoman.canonical.events import BlockEnd, BlockKind, BlockStart, Delta, Event, Ping
from dragoman.errors import StreamTruncated, UpstreamTimeout
from support.manual_clock import ManualClock

LONG = 1000.0
LATE = 1.25


class Room:
    """A watch, its clock, and what became of its reply."""

    def __init__(self, **timeouts: float) -> None:
        named = dict.fromkeys(("connect", "first_byte", "idle", "tool_stall", "write", "heartbeat"), LONG)
        self.clock = ManualClock()
        self.client_left = self.connection_broke = False
        self.failed: list[tuple[float, BaseException]] = []
        self.beats: list[float] = []
        self.settled: list[float] = []
        self.cuts: list[float] = []
        self.watch = StreamTimers(
            Timeouts(**(named | timeouts)),
            lambda: self.client_left,
            loop=cast("asyncio.AbstractEventLoop", self.clock),
        )
        self.watch.attach(self.fail, lambda: self.connection_broke)

    def fail(self, error: BaseException) -> None:
        self.failed.append((self.clock.time() - 1000.0, error))

    def send_heartbeat(self) -> None:
        self.beats.append(self.clock.time() - 1000.0)

    def abort(self) -> None:
        self.cuts.append(self.clock.time() - 1000.0)

    def detach(self) -> None:
        self.settled.append(self.clock.time())

    def only_failure(self) -> tuple[float, BaseException]:
        (failure,) = self.failed
        return failure


@pytest.mark.parametrize("limit", [0.05, 0.2, 1.0, 8.0, 300.0])
@pytest.mark.parametrize("expected", ["first_byte", "idle"])
def test_silence_is_noticed_in_time(limit: float, expected: str) -> None:
    room = Room(**{expected: limit})
    begun = 0.0
    if expected == "idle":
        room.clock.advance(0.0123)
        room.watch.received()
        begun = 0.0123
    room.clock.advance(3 * limit)
    at, error = room.only_failure()
    assert limit < at - begun <= LATE * limit
    assert isinstance(error, UpstreamTimeout)
    assert f"({expected})" in str(error)


def test_every_read_puts_it_off() -> None:
    room = Room(idle=1.0)
    for _ in range(40):
        room.watch.received()
        room.clock.advance(0.9)
    assert not room.failed
    room.clock.advance(0.5)
    assert len(room.failed) == 1


def test_signs_of_life_do_not_stop_the_wait_for_the_first_event() -> None:
    room = Room(first_byte=1.0, idle=0.5)
    room.watch.received()
    room.watch.await_event()
    for _ in range(20):
        room.clock.advance(0.1)
        room.watch.received()
    at, error = room.only_failure()
    assert 1.0 < at <= 1.25
    assert "(first_byte)" in str(error)


def test_behind_the_first_event_only_silence_counts() -> None:
    room = Room(first_byte=1.0, idle=0.5)
    room.watch.await_event()
    room.watch.stream_started()
    for _ in range(20):
        room.clock.advance(0.4)
        room.watch.received()
    assert not room.failed


def test_heartbeats_fill_the_silence_towards_the_client() -> None:
    room = Room(heartbeat=1.0, idle=10.0)
    room.watch.attach_sink(room)
    for _ in range(10):
        room.watch.received()
        room.watch.client_active = True
        room.clock.advance(0.5)
    assert not room.beats
    room.clock.advance(5.0)
    assert 4 <= len(room.beats) <= 5
    gaps = [after - before for before, after in zip(room.beats, room.beats[1:], strict=False)]
    assert all(1.0 <= gap <= 1.25 for gap in gaps)


def test_a_client_is_told_at_each_look_that_its_stream_lasts() -> None:
    room = Room(heartbeat=2.0)
    room.clock.advance(1.0)
    assert not room.settled
    room.watch.attach_sink(room)
    room.clock.advance(1.0)
    assert len(room.settled) == 4
    room.watch.stop()
    room.clock.advance(1.0)
    assert len(room.settled) == 4


def test_a_client_that_does_not_read_is_cut_and_the_upstream_is_not_to_blame() -> None:
    room = Room(write=1.0, idle=0.2, heartbeat=0.3)
    room.watch.attach_sink(room)
    room.watch.received()
    room.watch.writing()
    room.clock.advance(0.9)
    assert not room.cuts
    assert not room.failed
    assert not room.beats
    room.watch.written()
    room.clock.advance(0.15)
    assert not room.failed
    room.watch.received()
    room.watch.writing()
    room.clock.advance(1.3)
    assert 1.0 < room.cuts[0] - 1.05 <= 1.25
    assert not room.failed


@pytest.mark.parametrize("reason", ["left", "broke"])
def test_a_side_that_went_is_noticed_within_a_second(reason: str) -> None:
    room = Room()
    room.clock.advance(7.3)
    room.client_left = reason == "left"
    room.connection_broke = reason == "broke"
    room.clock.advance(1.01)
    at, error = room.only_failure()
    assert 7.3 < at <= 8.31
    assert isinstance(error, ClientGone if reason == "left" else StreamTruncated)


def _tool(index: int) -> BlockStart:
    return BlockStart(index, BlockKind.TOOL, call_id="c", name="look")


def test_a_tool_call_that_does_not_move_on_is_a_stall_though_the_upstream_lives() -> None:
    room = Room(tool_stall=1.0)
    tools = ToolStallDetector(room.watch)
    batches: list[list[Event]] = [[_tool(1)], [Delta(1, "{")], [Delta(1, "}"), Delta(1, " ")]]
    for batch in batches:
        tools.check_frame(batch)
        room.watch.received()
        room.clock.advance(0.9)
    for _ in range(5):
        tools.check_frame([Ping()])
        room.watch.received()
        room.clock.advance(0.1)
    at, error = room.only_failure()
    assert 1.0 < at - 1.8 <= 1.25
    assert "(tool_stall)" in str(error)


def test_the_time_of_a_write_is_no_stall_of_a_call() -> None:
    room = Room(tool_stall=1.0)
    tools = ToolStallDetector(room.watch)
    tools.check_frame([_tool(0)])
    room.clock.advance(0.5)
    room.watch.writing()
    room.clock.advance(30.0)
    room.watch.written()
    room.clock.advance(0.4)
    assert not room.failed
    room.clock.advance(0.5)
    assert len(room.failed) == 1


def test_calls_that_are_closed_do_not_stall() -> None:
    room = Room(tool_stall=1.0)
    tools = ToolStallDetector(room.watch)
    tools.check_frame([_tool(0), _tool(1), BlockEnd(0)])
    assert tools.open_calls == {1}
    tools.check_frame([BlockEnd(1), BlockStart(2, BlockKind.TEXT), Delta(2, "done")])
    assert not tools.open_calls
    room.clock.advance(20.0)
    assert not room.failed


def test_it_fails_once_and_stops_for_good() -> None:
    room = Room(idle=0.1)
    room.watch.received()
    room.clock.advance(1.0)
    room.watch.expire(RuntimeError("again"))
    assert len(room.failed) == 1
    room.watch.stop()
    room.watch.stop()
    room.clock.advance(2.0)
    assert not room.clock.pending


def test_the_representation_shows_what_is_timed() -> None:
    room = Room()
    room.clock.advance(2.0)
    assert repr(room.watch) == "<StreamTimers awaiting first byte idle=2.0s client=2.0s>"
    room.watch.stream_started()
    ToolStallDetector(room.watch).check_frame([_tool(0)])
    room.watch.writing()
    room.clock.advance(3.0)
    assert repr(room.watch) == "<StreamTimers streaming idle=5.0s client=5.0s tool=3.0s writing=3.0s>"
    room.watch.upstream_done()
    assert repr(room.watch).startswith("<StreamTimers upstream done ")
    room.watch.stop()
    assert repr(room.watch) == "<StreamTimers stopped>"


def test_an_upstream_that_is_done_is_not_failed_but_the_client_is_kept_awake() -> None:
    room = Room(heartbeat=1.0, idle=0.5, first_byte=0.5)
    room.watch.attach_sink(room)
    room.watch.upstream_done()
    room.client_left = True
    room.clock.advance(3.0)
    assert not room.failed
    assert room.beats
