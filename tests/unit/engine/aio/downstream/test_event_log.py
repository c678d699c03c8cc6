"""The log of a stream that outlives its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio import EventLog, LogBudget, LoggedStream, LogTail, StreamTimers, Timeouts
from dragoman.aio.trampoline import InlineTask
from dragoman.wire.sse import Frame, FrameBatch


def frame(number: int, size: int = 10) -> bytes:
    return b"%d:" % number + b"x" * size


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(20, 200))
def test_the_newest_events_within_the_limit_are_kept(sizes: list[int], limit: int) -> None:
    log, frames = EventLog(limit), [frame(number, size) for number, size in enumerate(sizes)]
    for each in frames:
        log.append(each)
    assert log.end == len(frames)
    kept = frames[log.first :]
    assert sum(map(len, kept)) <= limit or len(kept) == 1
    assert log.written == sum(map(len, frames))
    assert log.first == 0 or sum(map(len, frames[log.first - 1 :])) > limit
    for number in range(log.first, log.end + 1):
        assert log.has(number)
        assert log.read(number) == b"".join(frames[number:])
    assert not log.has(log.first - 1)
    assert not log.has(log.end + 1)


def test_dropped_events_take_no_memory() -> None:
    log = EventLog(1000)
    for number in range(5000):
        log.append(frame(number))
        assert len(log._frames) < 700
    assert log.end == 5000
    assert log.read(log.end - 1) == frame(4999)
    assert log.read(log.first) == b"".join(map(frame, range(log.first, 5000)))


def test_a_budget_drops_the_log_that_ended_first() -> None:
    budget = LogBudget(60)
    first, second, open_log = (EventLog(1000, budget) for _ in range(3))
    for log in (first, second):
        log.append(frame(0))
        log.append(frame(1))
        log.close()
    assert (budget.used, budget.exceeded) == (48, False)
    open_log.append(frame(0))
    open_log.append(frame(1))
    assert (budget.used, first.has(0), first.end, second.first) == (48, False, 2, 0)
    assert first.read(2) == b""
    for number in range(2, 9):
        open_log.append(frame(number))
        assert budget.used <= 60
    assert not second.has(0)
    assert (open_log.first, open_log.end) == (4, 9)
    open_log.clear()
    open_log.clear()
    assert (budget.used, open_log.first, open_log.end) == (0, 9, 9)


def test_other_bytes_count_too_and_the_last_event_of_an_open_log_stays() -> None:
    budget = LogBudget(60)
    log = EventLog(1000, budget)
    for number in range(4):
        log.append(frame(number))
    budget.spend(100)
    log.append(frame(4))
    assert (log.first, log.end, budget.used, budget.exceeded) == (4, 5, 112, True)
    log.close()
    assert (log.first, budget.used) == (5, 100)
    log.close()
    budget.spend(-100)
    assert budget.used == 0


def test_a_budget_counts_what_open_logs_keep_within_a_4096th_of_its_limit() -> None:
    whole = LogBudget(10**6)
    budget = LogBudget(4096 * 50, whole)
    first, second = EventLog(10**6, budget), EventLog(10**6, budget)
    for number in range(1000):
        for log in (first, second):
            log.append(frame(number))
        kept = first.size + second.size
        assert kept - 2 * 50 <= budget.used <= kept
        assert budget.used == whole.used
    first.close()
    assert first.size <= budget.used <= first.size + second.size
    second.close()
    assert budget.used == whole.used == first.size + second.size
    first.clear()
    second.clear()
    assert budget.used == whole.used == 0


async def read_to_end(log: EventLog, tail: LogTail) -> list[int]:
    """The ends of the log that a reader saw."""
    seen = []
    with tail:
        while not log.closed:
            seen.append(log.end)
            await tail
    return seen


async def test_readers_in_tasks_wait_for_the_next_event_and_for_the_end() -> None:
    log = EventLog(1000)
    readers = [asyncio.create_task(read_to_end(log, LogTail(log))) for _ in range(2)]
    await asyncio.sleep(0)
    log.append(frame(0))
    log.append(frame(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    log.close()
    log.append(frame(2))
    assert await asyncio.gather(*readers) == [[0, 2], [0, 2]]
    assert (log.end, log.closed) == (2, True)


async def test_a_reader_in_an_inline_task_goes_on_at_once() -> None:
    log = EventLog(1000)
    tail = LogTail(log)
    reading = InlineTask(read_to_end(log, tail), tail.on_arrival)
    reading.start()
    log.append(frame(0))
    log.append(frame(1))
    assert reading.running
    log.close()
    assert not reading.running
    assert await reading == [0, 1, 2]
    assert not log._tails


async def test_a_stream_is_logged_event_by_event() -> None:
    log, seen = EventLog(1000), list[bytes]()
    timers = StreamTimers(Timeouts())
    stream = LoggedStream(log, timers, seen.append)

    async def batches() -> AsyncGenerator[FrameBatch, None]:
        yield b'event: a\ndata: {"n":1}\n\n: comment\n\n'
        yield [Frame("b", b"2"), Frame("", None), b"event: c\ndata: 3\n\nevent: d\ndata: 4\n\n"]

    assert await stream.open() is stream.direct is True
    assert stream.opened
    await stream.send_body(batches(), None)  # type: ignore[arg-type]
    await stream.end(b"event: e\ndata: 5\n\n")
    stream.send_heartbeat()
    assert seen == [
        b'event: a\ndata: {"n":1}\n\n',
        *(b"event: %b\ndata: %d\n\n" % (b"bcde"[n : n + 1], n + 2) for n in range(4)),
    ]
    assert log.read(0) == b"".join(seen)
    assert log.read(4) == b"event: e\ndata: 5\n\n"
    timers.stop()


def test_a_log_that_is_read_is_not_dropped_for_others() -> None:
    budget = LogBudget(30)
    read, other = EventLog(1000, budget), EventLog(1000, budget)
    read.append(frame(0))
    read.hold()
    read.close()
    assert not budget.has_room(19)
    other.append(frame(0))
    other.append(frame(1))
    assert (read.has(0), other.has(0), budget.used) == (True, False, 24)
    read.release()
    assert budget.has_room(18)
    other.append(frame(2))
    assert (read.has(0), other.has(1), budget.used) == (False, True, 24)


def test_a_budget_may_be_a_part_of_another() -> None:
    whole = LogBudget(50)
    mine, theirs = LogBudget(25, whole), LogBudget(40, whole)
    first, second, third = EventLog(1000, mine), EventLog(1000, theirs), EventLog(1000, theirs)
    for log in (first, first, first, second, second):
        log.append(frame(0))
    assert (mine.used, theirs.used, whole.used) == (24, 24, 48)
    first.close()
    assert (theirs.has_room(16), theirs.has_room(17), mine.has_room(26)) == (True, False, False)
    third.append(frame(0))
    assert (mine.used, theirs.used, whole.used, whole.exceeded) == (0, 36, 36, False)
