"""Reading the body of an `Http11Response`: one batch per network read, by a future or by a callback."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable

import pytest

from dragoman.aio.stream_timers import ClientGone
from dragoman.aio.upstream.http11.response import Http11Response
from dragoman.errors import LimitExceeded, StreamTruncated, UpstreamProtocolError
from support.raw_connections import HEAD, bench, chunk

LAST = b"0\r\n\r\n"


class Stepped:
    """A reader without a task: each step runs it to its next wait. `results` are its batches and its end."""

    def __init__(self, answer: Http11Response, then: Callable[[bytes], None] | None = None) -> None:
        self.answer = answer
        self.then = then
        self.steps = 0
        self.results: list[object] = []
        self._work = self._read(answer.batches())
        answer.on_arrival(self.step)
        self.step()

    async def _read(self, batches: AsyncGenerator[bytes, None]) -> None:
        async for data in batches:
            self.results.append(data)
            if self.then is not None:
                self.then(data)

    def step(self) -> None:
        """As `InlineTask.resume`."""
        self.steps += 1
        try:
            assert self._work.send(None) is None
        except StopIteration:
            self.results.append("end")
        except Exception as error:
            self.results.append(type(error))

    def throw(self, error: BaseException) -> None:
        """As a cancelled handler."""
        with pytest.raises(type(error)):
            self._work.throw(error)


async def test_each_read_resumes_once_and_is_one_batch() -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"early"))
        reader = Stepped(answer)
        assert reader.results == [b"early"]
        connection.data_received(chunk(b"one") + chunk(b"two") + b"5\r\nthr")
        assert reader.results[1:] == [b"onetwothr"]
        connection.data_received(b"ee")
        connection.data_received(b"\r\n")
        assert reader.steps == 3, "a read without body bytes resumes no reader"
        connection.data_received(chunk(b"last") + LAST)
        assert reader.results[2:] == [b"ee", b"last", "end"]
        await answer.close()
        assert made.pool.acquire_idle() is connection


@pytest.mark.parametrize("how", ["lost", "eof", "failed", "malformed", "malformed behind bytes"])
async def test_every_end_resumes_the_reader(how: str) -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD)
        reader = Stepped(answer)
        if how == "lost":
            made.wires[0].lose()
        elif how == "eof":
            connection.eof_received()
        elif how == "failed":
            connection.fail(ClientGone())
        else:
            connection.data_received((chunk(b"x") if "bytes" in how else b"") + b"zz\r\n")
        expected = [ClientGone] if how == "failed" else [StreamTruncated]
        assert reader.results == ([b"x", *expected] if "bytes" in how else expected)
        assert made.wires[0].closed


async def test_a_body_that_ends_with_the_connection_resumes_once_more() -> None:
    async with bench() as made:
        answer, connection = await made.answer(b"HTTP/1.1 200 OK\r\n\r\nbytes")
        reader = Stepped(answer)
        connection.eof_received()
        assert reader.results == [b"bytes", "end"]


async def test_the_reader_may_close_the_response() -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD)

        def close(data: bytes) -> None:
            with pytest.raises(StopIteration):
                answer.close().send(None)

        reader = Stepped(answer, close)
        connection.data_received(chunk(b"one") + chunk(b"two"))
        assert reader.results == [b"onetwo", StreamTruncated]
        assert made.wires[0].closed
        connection.data_received(chunk(b"three"))
        assert reader.steps == 2


async def test_a_reader_that_is_behind_pauses_its_server_and_goes_on() -> None:
    """Between two steps it waits for its client, so what comes meanwhile steps nothing."""
    async with bench(unread=1024) as made:
        answer, connection = await made.answer(HEAD + chunk(b"first"))
        busy = answer.batches()
        steps = []
        answer.on_arrival(lambda: steps.append(1))
        assert await anext(busy) == b"first"
        for _ in range(3):
            connection.data_received(chunk(bytes(600)))
        assert made.wires[0].paused
        assert len(await anext(busy)) == 1800
        assert not made.wires[0].paused
        assert not steps
        await busy.aclose()


async def test_futures_are_used_again_after_on_arrival_none() -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD)
        batches = answer.batches()
        read = batches.__anext__()
        answer.on_arrival(lambda: pytest.fail("stepped after it was switched off"))
        assert read.send(None) is None
        answer.on_arrival(None)
        connection.data_received(chunk(b"one"))
        with pytest.raises(StopIteration) as first:
            read.send(None)
        assert first.value.value == b"one"
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        connection.data_received(chunk(b"two"))
        assert await waiting == b"two"
        await batches.aclose()


@pytest.mark.parametrize("stepped", [True, False])
async def test_a_cancelled_reader_gets_nothing_more_and_the_upstream_is_cut(stepped: bool) -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD)
        if stepped:
            reader = Stepped(answer)
            reader.throw(asyncio.CancelledError())
        else:
            task = asyncio.create_task(answer.read(99))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        connection.data_received(chunk(b"late"))
        await answer.close()
        assert made.wires[0].closed


@pytest.mark.parametrize("gone", [True, False])
async def test_a_reader_that_stops_early_lets_the_response_finish_unless_the_client_is_gone(gone: bool) -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"terminal"))
        answer._timers._is_client_gone = lambda: gone
        batches = answer.batches()
        await anext(batches)
        await batches.aclose()
        await answer.close()
        assert made.wires[0].closed is gone
        if not gone:
            connection.data_received(LAST)
            assert made.pool.acquire_idle() is connection


async def test_a_body_past_the_limit_is_cut() -> None:
    async with bench() as made:
        answer, _ = await made.answer(HEAD + chunk(bytes(100)))
        with pytest.raises(LimitExceeded, match="reply_body = 99"):
            await answer.read(99)
        await answer.close()
        assert made.wires[0].closed


async def test_a_compressed_body_is_expanded_read_by_read() -> None:
    packed = gzip.compress(b"words" * 300)
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    async with bench() as made:
        answer, connection = await made.answer(head)
        reader = Stepped(answer)
        for at in range(0, len(packed), 7):
            connection.data_received(chunk(packed[at : at + 7]))
        connection.data_received(LAST)
        assert reader.results.pop() == "end"
        assert b"".join(data for data in reader.results if isinstance(data, bytes)) == b"words" * 300


async def test_an_unknown_encoding_fails_the_read_and_not_the_response() -> None:
    """The status and the headers of an error must not be lost for it."""
    async with bench() as made:
        answer, _ = await made.answer(b"HTTP/1.1 429 No\r\ncontent-encoding: pack\r\ncontent-length: 1\r\n\r\nx")
        assert answer.status == 429
        with pytest.raises(UpstreamProtocolError, match="'pack'"):
            await answer.read(99)


async def test_a_closed_response_has_no_body() -> None:
    async with bench() as made:
        answer, _ = await made.answer(HEAD + chunk(b"x") + LAST)
        suspended = answer.batches()
        assert await anext(suspended) == b"x"
        await answer.close()
        await answer.close()
        answer.on_arrival(None)
        for batches in (suspended, answer.batches()):
            with pytest.raises(StreamTruncated, match="closed"):
                await anext(batches)
