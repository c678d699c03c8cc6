"""The timers of an exchange, on a manual clock: never early and at most a quarter late."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.errors import StreamTruncated, UpstreamTimeout
from support.manual_clock import ManualClock

LONG = 1000.0
LATE = 1.25


class TimersUnderTest:
    """Timers, their clock, and what they did."""

    def __init__(self, **timeouts: float) -> None:
        named = dict.fromkeys(("connect", "first_byte", "idle", "tool_stall", "write", "heartbeat"), LONG)
        self.clock = ManualClock()
        self.client_left = self.connection_broke = False
        self.failed: list[tuple[float, BaseException]] = []
        self.beats: list[float] = []
        self.settled: list[float] = []
        self.cuts: list[float] = []
        self.left = 100_000
        self.timers = StreamTimers(
            Timeouts(**(named | timeouts)),
            lambda: self.client_left,
            loop=cast("asyncio.AbstractEventLoop", self.clock),
        )
        self.timers.attach(self.fail, lambda: self.connection_broke)

    def fail(self, error: BaseException) -> None:
        self.failed.append((self.clock.time() - 1000.0, error))

    def send_heartbeat(self) -> None:
        self.beats.append(self.clock.time() - 1000.0)

    def abort(self) -> None:
        self.cuts.append(self.clock.time() - 1000.0)

    def unsent(self) -> int:
        return self.left

    def detach(self) -> None:
        self.settled.append(self.clock.time())

    def only_failure(self) -> tuple[float, BaseException]:
        (failure,) = self.failed
        return failure


@pytest.mark.parametrize("limit", [0.05, 0.2, 1.0, 8.0, 300.0])
@pytest.mark.parametrize("expected", ["first_byte", "idle"])
def test_silence_is_noticed_in_time(limit: float, expected: str) -> None:
    under_test = TimersUnderTest(**{expected: limit})
    begun = 0.0
    if expected == "idle":
        under_test.clock.advance(0.0123)
        under_test.timers.received()
        begun = 0.0123
    under_test.clock.advance(3 * limit)
    at, error = under_test.only_failure()
    assert limit < at - begun <= LATE * limit
    assert isinstance(error, UpstreamTimeout)
    assert f"({expected})" in str(error)


def test_every_read_puts_it_off() -> None:
    under_test = TimersUnderTest(idle=1.0)
    for _ in range(40):
        under_test.timers.received()
        under_test.clock.advance(0.9)
    assert not under_test.failed
    under_test.clock.advance(0.5)
    assert len(under_test.failed) == 1


def test_signs_of_life_do_not_stop_the_wait_for_the_first_event() -> None:
    under_test = TimersUnderTest(first_byte=1.0, idle=0.5)
    under_test.timers.received()
    under_test.timers.await_event()
    for _ in range(20):
        under_test.clock.advance(0.1)
        under_test.timers.received()
    at, error = under_test.only_failure()
    assert 1.0 < at <= 1.25
    assert "(first_byte)" in str(error)


def test_behind_the_first_event_only_silence_counts() -> None:
    under_test = TimersUnderTest(first_byte=1.0, idle=0.5)
    under_test.timers.await_event()
    under_test.timers.stream_started()
    for _ in range(20):
        under_test.clock.advance(0.4)
        under_test.timers.received()
    assert not under_test.failed


def test_heartbeats_fill_the_silence_towards_the_client() -> None:
    under_test = TimersUnderTest(heartbeat=1.0, idle=10.0)
    under_test.timers.attach_sink(under_test)
    for _ in range(10):
        under_test.timers.received()
        under_test.timers.client_active = True
        under_test.clock.advance(0.5)
    assert not under_test.beats
    under_test.clock.advance(5.0)
    assert 4 <= len(under_test.beats) <= 5
    gaps = [after - before for before, after in zip(under_test.beats, under_test.beats[1:], strict=False)]
    assert all(1.0 <= gap <= 1.25 for gap in gaps)


def test_detach_is_called_at_each_tick() -> None:
    under_test = TimersUnderTest(heartbeat=2.0)
    under_test.clock.advance(1.0)
    assert not under_test.settled
    under_test.timers.attach_sink(under_test)
    under_test.clock.advance(1.0)
    assert len(under_test.settled) == 4
    under_test.timers.stop()
    under_test.clock.advance(1.0)
    assert len(under_test.settled) == 4


def test_a_slow_client_is_not_cut_while_it_takes_bytes() -> None:
    under_test = TimersUnderTest(write=1.0)
    under_test.timers.attach_sink(under_test)
    under_test.timers.writing()
    for _ in range(10):
        under_test.clock.advance(0.8)
        under_test.left -= 1
    assert not under_test.cuts
    under_test.clock.advance(1.5)
    assert 1.0 < under_test.cuts[0] - 8.0 <= 1.25
    under_test.cuts.clear()
    under_test.timers.written()
    under_test.timers.writing()
    under_test.clock.advance(0.9)
    assert not under_test.cuts, "the next write has the whole timeout"


def test_a_write_ends_although_the_client_takes_a_byte_in_each_timeout() -> None:
    under_test = TimersUnderTest(write=1.0)
    under_test.timers.attach_sink(under_test)
    under_test.timers.writing()
    for _ in range(20):
        under_test.clock.advance(0.8)
        under_test.left -= 1
    assert 10.0 < under_test.cuts[0] <= 10.25


def test_a_client_that_does_not_read_is_cut_and_the_upstream_is_not_to_blame() -> None:
    under_test = TimersUnderTest(write=1.0, idle=0.2, heartbeat=0.3)
    under_test.timers.attach_sink(under_test)
    under_test.timers.received()
    under_test.timers.writing()
    under_test.clock.advance(0.9)
    assert not under_test.cuts
    assert not under_test.failed
    assert not under_test.beats
    under_test.timers.written()
    under_test.clock.advance(0.15)
    assert not under_test.failed
    under_test.timers.received()
    under_test.timers.writing()
    under_test.clock.advance(1.3)
    assert 1.0 < under_test.cuts[0] - 1.05 <= 1.25
    assert not under_test.failed


@pytest.mark.parametrize("reason", ["left", "broke"])
def test_a_side_that_went_is_noticed_within_a_second(reason: str) -> None:
    under_test = TimersUnderTest()
    under_test.clock.advance(7.3)
    under_test.client_left = reason == "left"
    under_test.connection_broke = reason == "broke"
    under_test.clock.advance(1.01)
    at, error = under_test.only_failure()
    assert 7.3 < at <= 8.31
    assert isinstance(error, ClientGone if reason == "left" else StreamTruncated)


def test_a_tool_call_that_does_not_move_on_is_a_stall_though_the_upstream_lives() -> None:
    under_test = TimersUnderTest(tool_stall=1.0)
    for _ in range(3):
        under_test.timers.tool_progressed()
        under_test.timers.received()
        under_test.clock.advance(0.9)
    for _ in range(5):
        under_test.timers.received()
        under_test.clock.advance(0.1)
    at, error = under_test.only_failure()
    assert 1.0 < at - 1.8 <= 1.25
    assert "(tool_stall)" in str(error)


def test_the_time_of_a_write_is_no_stall_of_a_call() -> None:
    under_test = TimersUnderTest(tool_stall=1.0)
    under_test.timers.tool_progressed()
    under_test.clock.advance(0.5)
    under_test.timers.writing()
    under_test.clock.advance(30.0)
    under_test.timers.written()
    under_test.clock.advance(0.4)
    assert not under_test.failed
    under_test.clock.advance(0.5)
    assert len(under_test.failed) == 1


def test_calls_that_are_closed_do_not_stall() -> None:
    under_test = TimersUnderTest(tool_stall=1.0)
    under_test.timers.tool_progressed()
    under_test.clock.advance(0.5)
    under_test.timers.tools_closed()
    under_test.clock.advance(20.0)
    assert not under_test.failed


def test_it_fails_once_and_stops_for_good() -> None:
    under_test = TimersUnderTest(idle=0.1)
    under_test.timers.received()
    under_test.clock.advance(1.0)
    under_test.timers.expire(RuntimeError("again"))
    assert len(under_test.failed) == 1
    under_test.timers.stop()
    under_test.timers.stop()
    under_test.clock.advance(2.0)
    assert not under_test.clock.pending


def test_the_representation_shows_what_is_timed() -> None:
    under_test = TimersUnderTest()
    under_test.clock.advance(2.0)
    assert repr(under_test.timers) == "<StreamTimers awaiting first byte idle=2.0s client=2.0s>"
    under_test.timers.stream_started()
    under_test.timers.tool_progressed()
    under_test.timers.writing()
    under_test.clock.advance(3.0)
    assert repr(under_test.timers) == "<StreamTimers streaming idle=5.0s client=5.0s tool=3.0s writing=3.0s>"
    under_test.timers.upstream_done()
    assert repr(under_test.timers).startswith("<StreamTimers upstream done ")
    under_test.timers.stop()
    assert repr(under_test.timers) == "<StreamTimers stopped>"


def test_an_upstream_that_is_done_is_not_failed_but_the_client_is_kept_awake() -> None:
    under_test = TimersUnderTest(heartbeat=1.0, idle=0.5, first_byte=0.5)
    under_test.timers.attach_sink(under_test)
    under_test.timers.upstream_done()
    under_test.client_left = True
    under_test.clock.advance(3.0)
    assert not under_test.failed
    assert under_test.beats


@pytest.mark.parametrize("pause", [0.0, 0.5, 30.0])
def test_a_restart_counts_from_the_end_of_a_pause(pause: float) -> None:
    under_test = TimersUnderTest(first_byte=1.0, idle=0.5)
    under_test.timers.await_event()
    under_test.clock.advance(0.9)
    under_test.timers.restart(pause)
    assert not under_test.failed
    under_test.timers.attach(under_test.fail)
    under_test.clock.advance(pause + 10)
    at, error = under_test.only_failure()
    assert 1.0 < at - 0.9 - pause <= LATE
    assert "(first_byte)" in str(error)


def test_in_a_pause_heartbeats_are_sent_and_a_client_that_leaves_is_noticed() -> None:
    under_test = TimersUnderTest(first_byte=1.0, heartbeat=2.0)
    under_test.timers.attach_sink(under_test)
    under_test.timers.restart(30.0)
    under_test.timers.attach(under_test.fail)
    under_test.clock.advance(9)
    assert len(under_test.beats) >= 3
    under_test.client_left = True
    under_test.clock.advance(1)
    assert isinstance(under_test.only_failure()[1], ClientGone)


def test_a_restart_forgets_the_stream_before_it() -> None:
    under_test = TimersUnderTest(tool_stall=1.0, idle=1.0)
    under_test.timers.received()
    under_test.timers.tool_progressed()
    under_test.clock.advance(0.5)
    under_test.timers.restart()
    under_test.timers.attach(under_test.fail)
    under_test.clock.advance(100)
    assert not under_test.failed
