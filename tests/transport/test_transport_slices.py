"""A server that sends as fast as it is read gets a slice or two per turn of the loop, and nothing is lost."""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman.aio.batch_slices import DENSE, SLICE
from dragoman.errors import StreamTruncated
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import Asked, Client
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
        assert all(len(batch) <= DENSE for batch in batches if batch.count(b"\n") > 1024)
        assert max(Counter(turns).values()) <= AT_ONCE


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
