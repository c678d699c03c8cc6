"""`DownstreamResponse`: the bytes that go to the socket, in how many writes, and when it waits."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http import StreamWriter
from aiohttp.test_utils import make_mocked_request

from dragoman.aio.batch_slices import WRITE_SLICE
from dragoman.aio.downstream.response import DownstreamResponse, EventStream
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.errors import Failure
from support.waiting import turns

PING = b": ping\n\n"


class Socket:
    """A transport and its protocol in one, that notes each write. It buffers while `full`."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.full = self.closing = self._paused = False
        self.keeps_alive: list[bool] = []
        self.drained = asyncio.Event()
        self.transport: Any = self
        self.ssl_context = self.peername = self.sockname = None

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))
        self._paused = self.full

    def get_write_buffer_size(self) -> int:
        return 100_000 if self.full else 0

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True

    def keep_alive(self, value: bool) -> None:
        self.keeps_alive.append(value)

    @property
    def writing_paused(self) -> bool:
        return self._paused

    async def _drain_helper(self) -> None:
        await self.drained.wait()
        self._paused = False

    def get_extra_info(self, name: str) -> None:
        return None


class Last:
    """A driver that is done when the test sets it."""

    done = False

    def feed(self, data: bytes, /) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""

    def fail(self, failure: Failure, /) -> bytes:
        return b""


class Stage:
    """A client on a socket by hand."""

    def __init__(self, response: web.StreamResponse | None = None, **request: Any) -> None:
        self.socket = Socket()
        self.writer = StreamWriter(cast("Any", self.socket), asyncio.get_running_loop())
        made = make_mocked_request(
            "POST",
            "/",
            writer=self.writer,
            protocol=cast("Any", self.socket),
            transport=self.socket,
            **{"version": HttpVersion11, **request},
        )
        self.watch = StreamTimers(Timeouts())
        headers = {"content-type": "text/event-stream"}
        self.response = response if response is not None else EventStream(headers=headers)
        self.client = DownstreamResponse(made, self.response, self.watch, PING)
        self.last = Last()

    async def batches(self, *batches: bytes) -> AsyncGenerator[bytes, None]:
        for number, batch in enumerate(batches, 1):
            self.last.done = number == len(batches)
            yield batch

    async def carry(self, *batches: bytes) -> None:
        await self.client.send_body(self.batches(*batches), self.last)


async def test_one_write_per_batch_the_first_with_the_headers_the_last_with_the_end() -> None:
    stage = Stage()
    assert await stage.client.open()
    assert not stage.socket.writes
    await stage.carry(b"one", b"two and more", b"three")
    first, second, third = stage.socket.writes
    assert first.startswith(b"HTTP/1.1 200 OK\r\n")
    assert first.endswith(b"\r\n\r\n3\r\none\r\n")
    assert second == b"c\r\ntwo and more\r\n"
    assert third == b"5\r\nthree\r\n0\r\n\r\n"
    assert stage.response.body_length == sum(map(len, stage.socket.writes))


async def test_the_representation_shows_how_the_body_is_sent() -> None:
    stage = Stage()
    assert repr(stage.client) == "<DownstreamResponse new>"
    await stage.client.open()
    assert repr(stage.client) == "<DownstreamResponse direct>"
    await stage.carry(b"one", b"two")
    assert repr(stage.client) == "<DownstreamResponse direct body started>"
    wrapped = await _wrapped()
    await wrapped.client.open()
    assert repr(wrapped.client) == "<DownstreamResponse through aiohttp>"


async def test_a_body_of_one_batch_is_one_write() -> None:
    stage = Stage()
    await stage.client.open()
    await stage.carry(b"all")
    (only,) = stage.socket.writes
    assert only.endswith(b"\r\n\r\n3\r\nall\r\n0\r\n\r\n")


async def test_headers_leave_alone_where_the_first_batch_takes_its_time() -> None:
    stage = Stage()
    await stage.client.open()
    stage.client.flush()
    stage.client.flush()
    assert len(stage.socket.writes) == 1
    assert stage.socket.writes[0].endswith(b"\r\n\r\n")
    await stage.carry(b"one", b"two")
    assert stage.socket.writes[1:] == [b"3\r\none\r\n", b"3\r\ntwo\r\n0\r\n\r\n"]


async def test_a_client_that_does_not_read_is_waited_for() -> None:
    stage = Stage()
    await stage.client.open()
    stage.socket.full = True
    task = asyncio.create_task(stage.carry(b"one", b"two", b"three"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(stage.socket.writes) == 1
    stage.client.send_heartbeat()
    assert len(stage.socket.writes) == 1, "no heartbeat behind what has not left"
    stage.socket.full = False
    stage.socket.drained.set()
    await task
    assert [write[-12:] for write in stage.socket.writes[1:]] == [b"3\r\ntwo\r\n", b"\nthree\r\n0\r\n\r\n"[-12:]]


async def test_a_client_that_hung_up_ends_it() -> None:
    stage = Stage()
    await stage.client.open()
    batches = stage.batches(b"one", b"two", b"three")

    async def hang_up() -> AsyncGenerator[bytes, None]:
        async for batch in batches:
            yield batch
            stage.socket.closing = True

    with pytest.raises(ConnectionResetError):
        await stage.client.send_body(hang_up(), stage.last)
    assert len(stage.socket.writes) == 1
    assert stage.writer.output_size == len(stage.socket.writes[0])
    stage.client.send_heartbeat()
    stage.client.flush()
    assert len(stage.socket.writes) == 1


async def test_heartbeats_are_chunks_of_their_own_and_are_counted() -> None:
    stage = Stage()
    await stage.client.open()
    stage.client.flush()
    stage.client.send_heartbeat()
    assert stage.socket.writes[1] == b"8\r\n" + PING + b"\r\n"
    await stage.carry(b"one")
    assert stage.response.body_length == sum(map(len, stage.socket.writes))


async def test_the_timer_between_requests_is_no_part_of_an_open_stream() -> None:
    stage = Stage()
    await stage.client.open()
    assert stage.socket.keeps_alive == [], "most streams end before the first tick"
    stage.client.detach()
    assert stage.socket.keeps_alive == [True]


class Wrapped(web.StreamResponse):
    """A response class of an application."""


async def _wrapped() -> Stage:
    return Stage(Wrapped())


async def _compressed() -> Stage:
    stage = Stage(headers={"accept-encoding": "gzip"})
    stage.response.enable_compression()
    return stage


async def _encoded_by_a_signal() -> Stage:
    stage = Stage()
    stage.response.headers["content-encoding"] = "x-mine"
    return stage


async def _old() -> Stage:
    return Stage(version=HttpVersion10)


async def _with_a_length() -> Stage:
    stage = Stage()
    stage.response.content_length = 6
    return stage


@pytest.mark.parametrize("made", [_wrapped, _compressed, _encoded_by_a_signal, _old, _with_a_length])
async def test_what_is_not_the_plain_chunked_response_goes_through_aiohttp(made: Any) -> None:
    stage = await made()
    assert not await stage.client.open()
    stage.client.flush()
    await stage.carry(b"one", b"two")
    whole = b"".join(stage.socket.writes)
    assert stage.response.body_length == len(whole)
    if made is _old:
        assert whole.endswith(b"\r\n\r\nonetwo")
    stage.client.close()


async def test_heartbeats_through_aiohttp_wait_for_each_other_and_end() -> None:
    stage = await _wrapped()
    await stage.client.open()
    stage.client.flush()
    stage.client.send_heartbeat()
    stage.client.send_heartbeat()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(stage.socket.writes) == 2
    stage.client.send_heartbeat()
    stage.client.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(stage.socket.writes) == 2


async def test_cutting_a_client_aborts_its_connection() -> None:
    stage = Stage()
    stage.client.abort()
    assert stage.socket.closing


# --- long batches -----------------------------------------------------------------------------------------------------

LONG = bytes(range(256)) * (WRITE_SLICE // 128) + b"end"
"""Two slices and three bytes."""


def body_of(writes: list[bytes]) -> bytes:
    """The body, without its head and chunk framing."""
    rest, body = b"".join(writes).partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("batches", [(LONG,), (b"first", LONG, b"last"), (b"first", LONG), (LONG, b"last")])
async def test_a_long_batch_takes_a_turn_for_each_slice(batches: tuple[bytes, ...], direct: bool) -> None:
    stage = Stage() if direct else await _wrapped()
    await stage.client.open()
    by_turn = [0]
    loop = asyncio.get_running_loop()

    def turn() -> None:
        by_turn.append(len(b"".join(stage.socket.writes)))
        handle[:] = [loop.call_soon(turn)]

    handle = [loop.call_soon(turn)]
    await stage.carry(*batches)
    handle[0].cancel()
    writes = stage.socket.writes
    by_turn.append(len(b"".join(writes)))
    assert body_of(writes) == b"".join(batches)
    assert max(after - before for before, after in itertools.pairwise(by_turn)) <= WRITE_SLICE + 1000
    assert stage.response.body_length == len(b"".join(writes))


async def test_a_heartbeat_does_not_come_between_two_slices() -> None:
    stage = Stage()
    await stage.client.open()
    await stage.client.write(b"first")
    beats = 0

    def turn() -> None:
        nonlocal beats
        if len(stage.socket.writes) in (2, 3):
            beats += 1
            stage.watch.on_tick(asyncio.get_running_loop().time() + Timeouts().heartbeat)
        if len(stage.socket.writes) < 4:
            asyncio.get_running_loop().call_soon(turn)

    asyncio.get_running_loop().call_soon(turn)
    await stage.carry(LONG, b"last")
    assert beats
    assert PING not in b"".join(stage.socket.writes)


async def test_the_write_timer_begins_again_with_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    await stage.client.open()
    begun: list[int] = []
    monkeypatch.setattr(StreamTimers, "writing", lambda _: begun.append(len(stage.socket.writes)))
    await stage.carry(b"first", LONG, b"last")
    assert begun == [1, 2, 4], "before both slices, and before the end"


async def test_a_stream_that_is_cancelled_between_two_slices_writes_the_rest_of_the_event() -> None:
    """Its end follows: an error event, which must not begin within another one."""
    stage = Stage()
    await stage.client.open()
    sending = asyncio.create_task(stage.carry(b"first", LONG, b"last"))
    while len(stage.socket.writes) < 2:
        await turns(1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert body_of(stage.socket.writes) == b"first" + LONG
