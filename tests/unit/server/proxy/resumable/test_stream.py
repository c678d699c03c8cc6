"""One stream that may be resumed, and the client that reads it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.aio import Downstream, LogBudget, LogTail, StreamTimers, Timeouts
from dragoman_server.proxy.resumable.stream import ResumableStream
from dragoman_server.receipt import Receipt
from support.waiting import turns


class Connection:
    """A client's request, as far as a stream uses it."""

    def __init__(self) -> None:
        self.transport: Any = self
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def opened(limit: int = 1000) -> tuple[ResumableStream, Downstream, StreamTimers]:
    stream, timers = ResumableStream(Receipt("req_1", Dialect.CHAT, 7), limit), StreamTimers(Timeouts())
    return stream, stream.open(timers, {}, LogBudget(10**6)), timers


def event(number: int, size: int = 1) -> bytes:
    return b"data: %b\n\n" % (b"%d" % number * size)


async def test_a_client_reads_what_was_written_and_what_is_written_later() -> None:
    stream, writer, timers = opened()
    await writer.write(event(0))
    client: Any = Connection()
    stream.attach(client)
    reading = stream.follow(client, LogTail(stream.log))
    assert await anext(reading) == b"data: 0\nid: req_1.0\n\n"
    later = asyncio.ensure_future(anext(reading))
    await turns()
    assert not later.done()
    await writer.write(event(1))
    assert await later == b"data: 1\nid: req_1.1\n\n"
    stream.end()
    assert [data async for data in reading] == []
    assert stream.detach(client)
    assert not stream.is_read
    timers.stop()


async def test_the_stream_waits_for_a_client_that_reads_slowly_and_for_no_other() -> None:
    stream, writer, timers = opened(limit=200)
    for number in range(50):  # without a client, the oldest events are dropped
        await writer.write(event(number))
    client: Any = Connection()
    stream.attach(client)
    first = stream.log.first
    writing = asyncio.ensure_future(writer.write(event(50)))
    await turns()
    assert not writing.done()
    reading = stream.follow(client, LogTail(stream.log, first))
    seen = [await anext(reading)]
    await writing
    # A batch that is longer than the log arrives whole, and so does an event that is.
    writing = asyncio.ensure_future(writer.write(b"".join(event(number) for number in range(40)) + event(7, 300)))
    while not writing.done() or stream.log.end > int(seen[-1].rpartition(b".")[2]) + 1:
        await turns()
        seen.append(await anext(reading))
    datas = [line[6:] for line in b"".join(seen).split(b"\n") if line.startswith(b"data: ")]
    assert datas == [b"%d" % number for number in (*range(first, 51), *range(40))] + [b"7" * 300]
    # A client that leaves holds nothing up.
    writing = asyncio.ensure_future(writer.write(event(1) + event(2, 300)))
    await turns()
    assert not writing.done()
    assert stream.detach(client)
    await writing
    timers.stop()


async def test_a_client_that_missed_events_is_cut() -> None:
    stream, writer, timers = opened(limit=100)
    client: Any = Connection()
    stream.attach(client)
    stream.detach(client)
    await writer.write(b"".join(map(event, range(9))))
    stream.attach(client)
    with pytest.raises(ConnectionError, match="dropped"):
        await anext(stream.follow(client, LogTail(stream.log)))
    timers.stop()


async def test_the_last_client_replaces_the_one_before() -> None:
    stream, _, timers = opened()
    first: Any = Connection()
    second: Any = Connection()
    stream.attach(first)
    reading = asyncio.ensure_future(anext(stream.follow(first, LogTail(stream.log))))
    await turns()
    stream.attach(second)
    assert first.aborted
    assert not second.aborted
    with pytest.raises(ConnectionError, match="another client"):
        await reading
    assert not stream.detach(first)
    assert stream.is_read
    timers.stop()


async def test_a_client_that_comes_back_keeps_the_exchange() -> None:
    stream, _, timers = opened()
    stream.leaving = asyncio.get_running_loop().call_later(60, stream.stop)
    leaving, client = stream.leaving, Connection()
    stream.attach(client)  # type: ignore[arg-type]
    assert leaving.cancelled()
    stream.leaving = leaving = asyncio.get_running_loop().call_later(60, stream.stop)
    stream.end()
    assert leaving.cancelled()
    timers.stop()


async def test_a_client_elsewhere_replaces_the_one_here_and_the_reverse() -> None:
    stream, _, timers = opened()
    first: Any = Connection()
    second: Any = Connection()
    stream.attach(first)
    assert not stream.read_elsewhere("")
    assert not stream.read_elsewhere("other 1")
    assert first.aborted
    assert not stream.is_read
    assert not stream.must_wait(10**6), "what is read elsewhere is not waited for"
    assert stream.take_back() == "other 1"
    stream.attach(second)
    assert not stream.read_elsewhere("other 1"), "this was read before it was taken back"
    assert not second.aborted
    assert stream.take_back() == ""
    assert not stream.read_elsewhere("other 1")
    assert not second.aborted
    timers.stop()


async def test_the_last_client_may_leave_elsewhere() -> None:
    stream, _, timers = opened()
    stream.leaving = leaving = asyncio.get_running_loop().call_later(60, stream.stop)
    stream.read_elsewhere("other 1")
    assert leaving.cancelled()
    assert not stream.read_elsewhere("other 2")
    assert stream.read_elsewhere("")
    stream.read_elsewhere("other 3")
    client: Any = Connection()
    stream.attach(client)
    assert not stream.read_elsewhere(""), "there is a client here"
    timers.stop()
