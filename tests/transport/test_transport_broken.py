"""Replies that break: cut, reset, malformed. A body that is not whole is StreamTruncated, never a clean end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.errors import DragomanError, StreamTruncated, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import PLENTY, Client
from support.waiting import turns, until
from support.wire_server import Handler, Peer, WireServer, silent

STEPPED = True
EVENT = b"data: {}\n\n"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
LENGTH = head(200, [("content-length", "100")])
SECRET = "sk-very-secret-0123456789"
ENDS: dict[str, Callable[[Peer], None]] = {
    "FIN": Peer.close,
    "RST": Peer.reset,
    "half-close": Peer.half_close,
}
ENDING = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def broken(wire: bytes, end: Callable[[Peer], None]) -> Handler:
    """A handler that sends this and ends the connection so, then waits for the client to end its side."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        if wire:
            await peer.send(wire)
        end(peer)
        await peer.gone.wait()

    return handler


@ENDING
@pytest.mark.parametrize(
    "wire",
    [b"", b"HT", b"HTTP/1.1 200 OK\r\n", CHUNKED[:-1], head(100)],
    ids=["nothing", "two letters", "a status line", "most of a head", "an interim reply"],
)
async def test_an_end_before_the_head_is_no_answer(client: Client, wire: bytes, end: Callable[[Peer], None]) -> None:
    async with WireServer(broken(wire, end)) as server:
        with pytest.raises(UpstreamUnreachable) as raised:
            await client.body(server.url, headers={"authorization": SECRET})
        assert SECRET not in str(raised.value)
        assert len(server.requests) == 1, "a POST is never sent twice"
        await server.peers[0].gone.wait()


@ENDING
@pytest.mark.parametrize(
    ("wire", "whole"),
    [
        (CHUNKED, b""),
        (CHUNKED + chunk(EVENT), EVENT),
        (CHUNKED + chunk(EVENT) + b"40", EVENT),
        (CHUNKED + chunk(EVENT) + b"40\r\n", EVENT),
        (CHUNKED + chunk(EVENT) + b"40\r\ndata:", EVENT + b"data:"),
        (CHUNKED + chunk(EVENT)[:-2], EVENT),
        (CHUNKED + chunk(EVENT) + b"0\r\n", EVENT),
        (CHUNKED + chunk(EVENT) + b"0\r\nx-trailer: 1\r\n", EVENT),
        (LENGTH, b""),
        (LENGTH + b"x", b"x"),
        (LENGTH + b"x" * 99, b"x" * 99),
    ],
    ids=[
        "no chunk",
        "between chunks",
        "in a size",
        "behind a size",
        "in a chunk",
        "in a chunk's end",
        "in the last chunk",
        "in the trailers",
        "no byte",
        "one byte",
        "all but one byte",
    ],
)
async def test_a_body_cut_short_is_truncated(
    client: Client, wire: bytes, whole: bytes, end: Callable[[Peer], None]
) -> None:
    """Bytes received before the end are read, unless an RST has dropped them."""
    async with WireServer(broken(wire, end)) as server:
        async with client.ask(server.url) as asked:
            pieces: list[bytes] = []
            with pytest.raises(StreamTruncated):
                await asked.pieces(pieces)
            received = b"".join(pieces)
            assert received == whole if end is not Peer.reset else whole.startswith(received)
        async with client.ask(server.url, stream=False) as asked:
            with pytest.raises(StreamTruncated) as caught:
                await asked.answer.read(PLENTY)
            assert caught.value.received == len(whole) or end is Peer.reset
        await until(lambda: all(peer.gone.is_set() for peer in server.peers))


async def test_an_until_close_body_that_is_reset_is_truncated(client: Client) -> None:
    async with WireServer(broken(head(200) + EVENT, Peer.reset)) as server, client.ask(server.url) as asked:
        with pytest.raises(StreamTruncated):
            await asked.body()


@ENDING
@pytest.mark.parametrize("wire", [CHUNKED + chunk(EVENT) + LAST_CHUNK, LENGTH + b"x" * 100, head(204)])
async def test_an_end_behind_a_whole_reply_is_of_no_interest(
    client: Client, wire: bytes, end: Callable[[Peer], None]
) -> None:
    async with WireServer(broken(wire, end)) as server:
        for number in range(1, 4):
            async with client.ask(server.url) as asked:
                assert len(await asked.body()) in (0, 10, 100)
            await server.peers[-1].gone.wait()
            await turns()
            assert len(server.requests) == len(server.peers) == number


MALFORMED = {
    "no HTTP": b"220 smtp.example.com ESMTP\r\n\r\n",
    "an event stream": EVENT * 3,
    "TLS": b"\x15\x03\x01\x00\x02\x02\x28" * 3,
    "no number": b"HTTP/1.1 OK\r\n\r\n",
    "a long number": b"HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a nul": b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
    "a length of letters": b"HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "a huge length": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999999\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "a length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "another coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nx",
    "a coding over chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"HTTP/1.1 200 OK\r\ncontent-length : 1\r\n\r\nx",
    "a folded line": b"HTTP/1.1 200 OK\r\nx-a: 1\r\n\tfolded\r\ncontent-length: 1\r\n\r\nx",
}


@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_malformed_head_is_no_answer(client: Client, kind: str) -> None:
    """The connection is of no more use, even if the server keeps it."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(MALFORMED[kind])
        await peer.gone.wait()

    async with WireServer(handler) as server:
        with pytest.raises(UpstreamUnreachable) as raised:
            await client.body(server.url, headers={"authorization": SECRET}, timeouts=Timeouts(idle=0.1))
        assert SECRET not in str(raised.value)
        await server.peers[0].gone.wait()
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    "wire",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"0x10\r\n",
        b"\r\n",
        b" \r\n",
        b"ffffffffffffffffffff\r\n",
        b"2\r\nabc\r\n",
        b"5\nhello\n",
        b"this is no chunk\r\n",
    ],
)
async def test_a_malformed_chunk_is_truncated(client: Client, wire: bytes) -> None:
    """The server keeps the connection open: only the grammar shows the error."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(EVENT))
        await peer.send(wire)
        await peer.gone.wait()

    async with WireServer(handler) as server:
        async with client.ask(server.url) as asked:
            pieces: list[bytes] = []
            with pytest.raises(StreamTruncated):
                await asked.pieces(pieces)
            assert pieces[0] == EVENT
        await server.peers[0].gone.wait()


async def test_a_malformed_chunk_before_which_the_reader_stops(client: Client) -> None:
    """The connection is closed before the next read, which reports the chunk like one that was waited for."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.send(chunk(EVENT) + b"zz\r\n")
        await peer.gone.wait()

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        batches = asked.answer.batches()
        assert await anext(batches) == EVENT
        await server.peers[0].lost.wait()
        with pytest.raises(StreamTruncated):
            await anext(batches)


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"HTTP/1.1 200 " + b"O" * 100, b"K" * 10_000),
        (b"HTTP/1.1 200 OK\r\nx-endless: ", b"x" * 10_000),
        (b"HTTP/1.1 200 OK\r\n", b"x-many: of them\r\n" * 600),
        (b"HTTP/1.1 200 OK\r\nx", b"-endless" * 1250),
    ],
    ids=["reason", "value", "lines", "name"],
)
async def test_an_endless_head_is_given_up(client: Client, start: bytes, more: bytes) -> None:
    """After a few hundred kilobytes at most: nothing is kept without a bound."""
    accepted = 0

    async def handler(peer: Peer) -> None:
        nonlocal accepted
        await peer.request()
        if start:
            await peer.send(start)
        while True:
            await peer.send(more)
            accepted = peer.sent

    async with WireServer(handler) as server:
        with pytest.raises(DragomanError) as raised:
            await client.body(server.url)
        assert isinstance(raised.value, UpstreamError)
        await server.peers[0].lost.wait()
    assert accepted < 3_000_000


async def test_endless_interim_replies_are_given_up(client: Client) -> None:
    """aiohttp's client passes over any number of them, within the first-byte timeout."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        while True:
            await peer.send(head(100) * 400)

    async with WireServer(handler) as server:
        with pytest.raises(UpstreamError):
            await client.body(server.url, timeouts=Timeouts(first_byte=10 if client.name == "raw" else 0.1))
        for peer in server.peers:
            await peer.lost.wait()


@pytest.mark.parametrize("more", [b"0" * 10_000, b"x" * 10_000], ids=["size", "extension"])
async def test_an_endless_chunk_line_is_given_up(client: Client, more: bytes) -> None:
    """aiohttp's client keeps nothing of an extension, and lets it go on until the idle timeout: no body came."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(EVENT) + (b"1" if more[:1] == b"0" else b"1;"))
        while True:
            await peer.send(more)

    async with WireServer(handler) as server:
        patient = client.name == "raw" or more[:1] == b"0"
        async with client.ask(server.url, timeouts=Timeouts(idle=10 if patient else 0.1)) as asked:
            with pytest.raises(StreamTruncated if patient else UpstreamTimeout):
                await asked.body()
        await server.peers[0].lost.wait()
        assert server.peers[0].sent < 3_000_000 or not patient


async def test_endless_trailers_are_given_up(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(EVENT) + b"0\r\n")
        while True:
            await peer.send(b"x-trailer: of many\r\n" * 500)

    async with WireServer(handler) as server:
        async with client.ask(server.url) as asked:
            with pytest.raises(StreamTruncated):
                await asked.body()
        await server.peers[0].lost.wait()
        assert server.peers[0].sent < 3_000_000


async def test_a_switch_of_protocols_is_no_answer(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(head(101, [("upgrade", "websocket"), ("connection", "upgrade")]))
        await peer.gone.wait()

    async with WireServer(handler) as server:
        with pytest.raises(UpstreamError):
            await client.body(server.url)
        await server.peers[0].gone.wait()


async def test_a_broken_response_leaves_the_one_before_it_whole(client: Client) -> None:
    """A connection may be used again before its last response, which has arrived, is read."""

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            long = b"HTTP/1.1 200 OK\r\n" + b"x-long: %s\r\n" % (b"x" * 4000) * 200
            await peer.send(CHUNKED + chunk(EVENT) + LAST_CHUNK if len(server.requests) == 1 else long)

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        await turns(10)
        with pytest.raises(UpstreamError):
            await client.body(server.url)
        assert await asked.body() == EVENT


class _LateTimers(StreamTimers):
    """Timers of which one ends in the same turn of the event loop as the transport's own."""

    def attach(self, fail: Callable[[BaseException], object], is_broken: Callable[[], bool] | None = None) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(SOON.first_byte, fail, UpstreamTimeout("first_byte", SOON.first_byte))
        time.sleep(2 * SOON.first_byte)


SOON = Timeouts(first_byte=0.01)


async def test_two_timers_that_end_in_one_turn(client: Client) -> None:
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with WireServer(silent) as server:
        request = UpstreamRequest(server.url, {"content-type": "application/json"}, b"{}", True, SOON, "POST")
        with pytest.raises(UpstreamTimeout):
            await client.upstream.open(request, _LateTimers(SOON))
    assert failures == []
