"""A server that sends as fast as it is read gets a slice or two per turn of the loop, and nothing is lost. A long
request is sent in slices too."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from math import isqrt
from typing import Any, cast

import pytest
from aiohttp.client_proto import ResponseHandler
from httptools import HttpResponseParser

from dragoman.aio.batch_slices import LINES, SLICE, WRITE_SLICE
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.response_input import PART
from dragoman.errors import StreamTruncated
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import Asked, Client
from support.waiting import until
from support.wire_server import Peer, WireServer

STEPPED = True
EVENTS = b"".join(b"data: %d\n\n" % number for number in range(100_000))
"""1.2 MB of short lines."""
TEXTS = b"".join(b"data: %d %b\n\n" % (number, b"x" * 500) for number in range(2000))
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
AT_ONCE = 2
"""Slices in one turn: the last of one read, and in the same turn's poll the first of the next."""
UNTIL_CLOSE = head(200, [("content-type", "text/event-stream"), ("connection", "close")])


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Callable[[], int]]:
    """The number of turns of the loop so far."""
    loop = asyncio.get_running_loop()
    turns, going = 0, True

    def turn() -> None:
        nonlocal turns
        turns += 1
        if going:
            loop.call_soon(turn)

    loop.call_soon(turn)
    try:
        yield lambda: turns
    finally:
        going = False


async def read_by_turns(asked: Asked, into: list[bytes]) -> list[int]:
    """Read the body, and return the turn in which each batch came."""

    class Noted(list[bytes]):
        def append(self, batch: bytes) -> None:
            into.append(batch)
            came.append(turns())

    came: list[int] = []
    async with counted_turns() as turns:
        await asked.pieces(Noted())
    return came


@pytest.mark.turns
@pytest.mark.parametrize("body", [EVENTS, TEXTS, b"\n" * 600_000], ids=["short lines", "texts", "empty lines"])
@pytest.mark.parametrize("framing", ["one chunk", "chunks", "until close"])
async def test_a_turn_has_two_slices_at_most(client: Client, body: bytes, framing: str) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        if framing == "until close":
            await peer.send(UNTIL_CLOSE + body)
            peer.half_close()
            return
        pieces = [body] if framing == "one chunk" else [body[at : at + 999] for at in range(0, len(body), 999)]
        await peer.send(CHUNKED + b"".join(map(chunk, pieces)) + LAST_CHUNK)

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        batches: list[bytes] = []
        turns = await read_by_turns(asked, batches)
        assert b"".join(batches) == body
        assert max(map(len, batches)) <= SLICE
        assert max(batch.count(b"\n") for batch in batches) <= isqrt(SLICE * LINES) + 1
        assert max(Counter(turns).values()) <= AT_ONCE


SMALL_CHUNKS = [b": %d\n\n" % number for number in range(20_000)]
"""Some 130 kB, which need not arrive in one read."""


async def test_a_long_read_of_small_chunks_is_parsed_in_parts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    by_turn: Counter[int] = Counter()
    parse = ResponseHandler.data_received

    def counted(self: ResponseHandler, data: bytes) -> None:
        by_turn[turns()] += len(data)
        parse(self, data)

    class Counted(HttpResponseParser):
        def feed_data(self, data: Any) -> None:
            by_turn[turns()] += len(data)
            super().feed_data(data)

    monkeypatch.setattr(ResponseHandler, "data_received", counted)
    monkeypatch.setattr("dragoman.aio.upstream.http11.response_parser.HttpResponseParser", Counted)

    async def handler(peer: Peer) -> None:
        for _ in range(2):
            await peer.request()
            await peer.send(CHUNKED + b"".join(map(chunk, SMALL_CHUNKS)) + LAST_CHUNK)
        await peer.gone.wait()

    async with WireServer(handler) as server, counted_turns() as turns:
        for _ in range(2):
            assert await client.body(server.url) == b"".join(SMALL_CHUNKS)
        assert len(server.peers) == 1, "the connection is used again"
    assert max(by_turn.values()) <= 2 * PART


@pytest.mark.parametrize(
    ("end", "error"),
    [(b"zz\r\n", StreamTruncated), (LAST_CHUNK + b"HTTP/1.1 200 OK\r\n\r\n", None), (b"", StreamTruncated)],
    ids=["malformed", "more than the body", "cut"],
)
async def test_an_end_in_a_later_part_of_a_read(client: Client, end: bytes, error: type[Exception] | None) -> None:
    if client.name == "aiohttp":
        pytest.skip("aiohttp's own client loses what it has read when the connection breaks")

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + b"".join(map(chunk, SMALL_CHUNKS)) + end)
        peer.half_close()
        await peer.gone.wait()

    async with WireServer(handler) as server:
        for number in (1, 2):
            async with client.ask(server.url) as asked:
                batches: list[bytes] = []
                with pytest.raises(error) if error is not None else nullcontext():
                    await asked.pieces(batches)
                assert b"".join(batches) == b"".join(SMALL_CHUNKS)
            assert len(server.peers) == number, "the connection is not used again"


async def test_a_reader_may_leave_between_two_parts_of_a_read(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + b"".join(map(chunk, SMALL_CHUNKS)))
        await peer.gone.wait()

    async with WireServer(handler) as server:
        for _ in range(2):
            async with client.ask(server.url) as asked:
                async for batch in asked.answer.batches():
                    assert b"".join(SMALL_CHUNKS).startswith(batch)
                    break


async def test_an_end_that_comes_too_early_is_behind_all_slices(client: Client) -> None:
    if client.name == "aiohttp":
        pytest.skip("aiohttp's own client loses what it has read when the connection breaks")

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(TEXTS))
        peer.half_close()
        await peer.gone.wait()

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        batches: list[bytes] = []
        with pytest.raises(StreamTruncated):
            await asked.pieces(batches)
        assert b"".join(batches) == TEXTS


async def test_a_failure_ends_it_at_once_and_not_behind_what_waits(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(TEXTS))
        await peer.gone.wait()

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        source = asked.answer.batches()
        await anext(source)
        asked.watch.expire(StreamTruncated("given up"))
        with pytest.raises(StreamTruncated, match="given up"):
            await anext(source)


async def test_a_connection_is_used_again_after_a_body_in_slices(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        for _ in range(3):
            await peer.request()
            await peer.send(CHUNKED + chunk(TEXTS) + LAST_CHUNK)
        await peer.gone.wait()

    async with WireServer(handler) as server:
        for _ in range(3):
            assert await client.body(server.url) == TEXTS
        assert len(server.peers) == 1


async def test_a_compressed_stream_is_expanded_in_slices(client: Client) -> None:
    """Little of it is much when it is expanded."""
    if client.name == "aiohttp":
        pytest.skip("aiohttp's own client expands it")
    packed = gzip.compress(EVENTS)
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(head(200, [*headers, ("content-length", str(len(packed)))]) + packed)

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        batches: list[bytes] = []
        turns = await read_by_turns(asked, batches)
        assert b"".join(batches) == EVENTS
        assert max(map(len, batches)) <= SLICE
        assert max(Counter(turns).values()) <= AT_ONCE


@pytest.mark.parametrize("streams", [1, 5])
async def test_a_first_event_waits_for_few_slices_of_streams_without_a_pause(client: Client, streams: int) -> None:
    """Not for what came before it: its neighbours have sent megabytes by then. They share the turns."""
    both = asyncio.Event()
    sent_in = 0
    fast: list[bytes] = []
    slow_in = 0

    async def blasting(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(TEXTS))
        await both.wait()
        await peer.send(chunk(TEXTS) * 4 + LAST_CHUNK)
        await peer.gone.wait()

    async def quiet(peer: Peer) -> None:
        nonlocal sent_in
        await peer.request()
        await peer.send(CHUNKED)
        both.set()
        await until(lambda: len(fast) >= 10)
        sent_in = len(fast)
        await peer.send(chunk(b"data: first\n\n") + LAST_CHUNK)
        await peer.gone.wait()

    class Noted(list[bytes]):
        def append(self, batch: bytes) -> None:
            nonlocal slow_in
            slow_in = len(fast)
            super().append(batch)

    async with WireServer(*[blasting] * streams, quiet) as server, AsyncExitStack() as stack:
        asked = [await stack.enter_async_context(client.ask(server.url)) for _ in range(streams)]
        reading = [asyncio.create_task(each.pieces(fast)) for each in asked]
        async with client.ask(server.url) as second:
            assert b"".join(await second.pieces(Noted())) == b"data: first\n\n"
        await asyncio.gather(*reading)
        assert len(b"".join(fast)) == len(TEXTS) * 5 * streams
        assert slow_in - sent_in <= 3 * AT_ONCE, f"{slow_in - sent_in} slices came before it"


@pytest.mark.parametrize("length", [WRITE_SLICE, WRITE_SLICE + 1, 5 * WRITE_SLICE + 7])
async def test_a_long_request_takes_a_turn_for_each_slice(
    client: Client, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client.name == "aiohttp":
        pytest.skip("aiohttp's own client writes 64 kB per turn")
    body = b"0123456789" * (length // 10) + b"x" * (length % 10)
    by_turn: Counter[int] = Counter()
    made = Connection.connection_made

    class Counted:
        """A transport whose writes are counted."""

        def __init__(self, transport: asyncio.Transport) -> None:
            self._transport = transport

        def write(self, data: bytes) -> None:
            by_turn[turns()] += len(data)
            self._transport.write(data)

        def writelines(self, pieces: tuple[bytes, ...]) -> None:
            by_turn[turns()] += sum(map(len, pieces))
            self._transport.writelines(pieces)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    monkeypatch.setattr(
        Connection, "connection_made", lambda self, transport: made(self, cast("Any", Counted(transport)))
    )

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(head(200, [("content-length", "2")]) + b"ok")

    async with WireServer(handler) as server, counted_turns() as turns:
        assert await client.read(server.url, body) == b"ok"
        assert await client.read(server.url, body) == b"ok"
        assert [request.body for request in server.requests] == [body, body]
        assert len(server.peers) == 1, "the connection is used again"
        assert max(by_turn.values()) <= WRITE_SLICE + 1000
