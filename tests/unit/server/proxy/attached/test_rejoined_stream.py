"""Events that are stored are dropped when their stream is read again."""

from __future__ import annotations

import pytest

from dragoman.aio import LoggedStream, StreamTimers, Timeouts
from dragoman_server.proxy.attached.rejoined_stream import RejoinedStream, filled_log

PING = b"event: ping\ndata: {}\n\n"


def event(number: int, **more: str) -> bytes:
    rest = "".join(f',"{name}":"{value}"' for name, value in more.items())
    return b'data: {"n":%d%b}\n\n' % (number, rest.encode())


async def rejoined(stored: list[bytes], again: list[bytes], first: int = 0) -> tuple[list[bytes], list[bytes], int]:
    """The log after the stream, the events that were seen, and how often it diverged."""
    log, timers = filled_log(1 << 20, None, first, stored), StreamTimers(Timeouts())
    assert (log.first, log.end) == (first, first + len(stored))
    seen: list[bytes] = []
    diverged: list[None] = []
    inner = LoggedStream(log, timers, lambda _: None)
    stream = RejoinedStream(inner, log, timers, first, stored, seen.append, lambda: diverged.append(None))
    for frame in again:
        assert stream.add(frame) is None
    timers.stop()
    return log.frames(first), seen, len(diverged)


@pytest.mark.parametrize("count", range(5))
async def test_no_event_is_twice_and_none_is_missing(count: int) -> None:
    events = [event(number) for number in range(4)]
    assert await rejoined(events[:count], events) == (events, events[:count], 0)


async def test_events_that_are_dropped_already_are_counted() -> None:
    events = [event(number) for number in range(6)]
    assert await rejoined(events[2:4], events, first=2) == (events[2:], events[2:4], 0)


async def test_heartbeats_are_none_of_the_events() -> None:
    """They were sent the first time only, or the second time only."""
    one, two, three = (event(number) for number in range(3))
    assert (await rejoined([one, PING, two], [one, two, three]))[0] == [one, PING, two, three]
    assert (await rejoined([one, two], [PING, one, PING, two, PING, three]))[0] == [one, two, PING, three]


async def test_ids_and_what_differs_each_time_are_not_compared() -> None:
    stored = [event(0)[:-1] + b"id: req_1.0\n\n", event(1, obfuscation="abc"), event(2)[:-1] + b"id: req_1.2\n\n"]
    again = [event(0), event(1, obfuscation="x"), event(2, obfuscation="y"), event(3)]
    log, _, diverged = await rejoined(stored, again)
    assert (log, diverged) == ([*stored, event(3)], 0)
    end = b'data: {"response":{"completed_at":%d}}\n\n'
    assert (await rejoined([end % 1], [end % 2]))[2] == 0
    assert (await rejoined([b"data: [DONE]\n\n"], [b"data: [DONE]\n\n"]))[2] == 0


async def test_another_stream_is_not_joined() -> None:
    log, seen, diverged = await rejoined([event(0), event(1)], [event(0), event(7), event(8)])
    assert (log, seen, diverged) == ([event(0), event(1), event(8)], [event(0)], 1)
    assert (await rejoined([b"data: [DONE]\n\n"], [b"data: other\n\n"]))[2] == 1
