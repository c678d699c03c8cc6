"""Bodies that are sent while they arrive: their framing, early responses, and failures in their middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.interface import Upload, UpstreamRequest
from dragoman.errors import ClientRequestError, UpstreamTimeout, UpstreamUnreachable
from support.sockets import Abort, Close, ScriptedServer, Stall, answer
from support.transports import Client
from support.waiting import until
from support.wire_server import Peer, WireServer

TIMEOUTS = Timeouts()


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


async def sent(
    client: Client, url: str, pieces: AsyncIterator[bytes], length: int | None, timeouts: Timeouts = TIMEOUTS
) -> tuple[int, bytes]:
    """The status and the body of the response to an upload."""
    request = UpstreamRequest(url, {"content-type": "multipart/form-data; boundary=x"}, b"", True, timeouts)
    timers = StreamTimers(timeouts)
    try:
        response = await client.upstream.open_upload(request, Upload(pieces, length), timers)
        try:
            return response.status, await response.read(1000)
        finally:
            await response.close()
    finally:
        timers.stop()


async def test_the_body_arrives_with_its_length_or_in_chunks(client: Client) -> None:
    pieces = (b"a" * 10, b"", b"b" * 200_000, b"c")
    whole = b"".join(pieces)
    async with ScriptedServer(answer(200, b"ok")) as server:
        for length in (len(whole), None):
            assert await sent(client, server.url, pieces_of(*pieces), length) == (200, b"ok")
        with_length, chunked = server.requests
    assert with_length.body == chunked.body == whole
    assert with_length.headers["content-length"] == str(len(whole))
    assert chunked.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in chunked.headers
    assert with_length.headers["accept-encoding"] == "identity"
    assert with_length.connection == chunked.connection, "the connection was not kept"


async def test_an_upstream_that_does_not_read_pauses_the_upload(client: Client) -> None:
    taken = 0
    may_read = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(400):
            taken += 1
            yield b"x" * 50_000

    async def handler(peer: Peer) -> None:
        peer.transport.pause_reading()
        await may_read.wait()
        peer.transport.resume_reading()
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with WireServer(handler) as server:
        sending = asyncio.ensure_future(sent(client, server.url, pieces(), 20_000_000))
        before = -1
        while taken != before or not taken:  # until the kernel's buffers are full
            before = taken
            await asyncio.sleep(0.3)
        assert taken < 360
        may_read.set()
        assert await sending == (200, b"ok")
        assert taken == 400


async def test_a_response_before_the_end_of_the_body_ends_the_upload(client: Client) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.wait_for(asyncio.shield(responded.wait()), 30)
        for _ in range(20):  # the response was sent; it arrives within some turns of the loop
            await asyncio.sleep(0.05)
            yield b"x"
        raise AssertionError("the upload was not ended")

    responded = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await until(lambda: b"\r\n\r\nx" in peer.received)
        await peer.send(b"HTTP/1.1 413 X\r\ncontent-length: 2\r\n\r\nno")
        responded.set()
        await until(peer.gone.is_set)

    async with WireServer(handler) as server:
        assert await sent(client, server.url, pieces(), 100) == (413, b"no")
        await until(server.peers[0].gone.is_set)


@pytest.mark.parametrize("length", [100, None])
@pytest.mark.parametrize("error", [ClientRequestError("model", "is given more than once"), ConnectionResetError()])
async def test_a_failing_body_cuts_the_request_and_is_raised(
    client: Client, length: int | None, error: Exception
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        raise error

    async with ScriptedServer(answer(200, b"ok")) as server:
        with pytest.raises(type(error)):
            await sent(client, server.url, pieces(), length)
        assert not server.requests, "the upstream got a whole request"


@pytest.mark.parametrize("end", [Abort, Close])
async def test_an_upstream_that_closes_fails_the_upload(client: Client, end: Callable[[], Abort | Close]) -> None:
    async with ScriptedServer([end()]) as server:
        with pytest.raises(UpstreamUnreachable):
            await sent(client, server.url, pieces_of(b"x"), 1)


@pytest.mark.turns
async def test_the_time_for_the_response_begins_with_the_end_of_the_body(client: Client) -> None:
    timeouts = Timeouts(first_byte=0.4)

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(8):
            await asyncio.sleep(0.1)
            yield b"x"

    async with ScriptedServer(answer(200, b"ok"), [Stall()]) as server:
        assert await sent(client, server.url, slow(), 8, timeouts) == (200, b"ok")
        with pytest.raises(UpstreamTimeout):
            await sent(client, server.url, slow(), 8, timeouts)
