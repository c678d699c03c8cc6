"""Replies that are read no further: kept if their end comes soon, cut if not, and never mixed with the next one."""

from __future__ import annotations

import pytest

from dragoman.aio.upstream.http11 import connection
from dragoman.errors import DragomanError, UpstreamTimeout
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import Client
from support.waiting import turns
from support.wire_server import Peer, WireServer, replying

EVENT = b"data: {}\n\n"
LAST = b"data: [DONE]\n\n"
OK = head(200, [("content-length", "2")]) + b"ok"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


async def _leave_after_the_first_batch(client: Client, url: str) -> bytes:
    async with client.ask(url) as asked:
        batches = asked.answer.batches()
        first = await anext(batches)
        await batches.aclose()
    return first


async def test_a_stream_left_at_its_terminal_event_keeps_the_connection(client: Client) -> None:
    """The last chunk comes a little later, as it does behind most servers."""

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED + chunk(LAST))
            await peer.send(LAST_CHUNK)

    async with WireServer(handler) as server:
        for _ in range(4):
            assert await _leave_after_the_first_batch(client, server.url) == LAST
            await turns(10)
        assert len(server.peers) == 1


async def test_a_stream_left_at_an_end_already_there_keeps_the_connection(client: Client) -> None:
    async with WireServer(replying(CHUNKED + chunk(LAST) + LAST_CHUNK)) as server:
        for _ in range(4):
            assert await _leave_after_the_first_batch(client, server.url) == LAST
        assert len(server.peers) == 1


async def test_a_stream_left_in_its_middle_is_cut(client: Client) -> None:
    """Leaving cancels the upstream: it is not read to its end, however much is to come."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        while True:
            await peer.send(chunk(EVENT * 1000))

    async with WireServer(handler) as server:
        assert await _leave_after_the_first_batch(client, server.url)
        await server.peers[0].lost.wait()
        assert server.peers[0].sent < 5_000_000


async def test_a_stream_left_that_goes_silent_is_cut(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last chunk may come, for as long as that takes at most; others do not wait for it."""
    monkeypatch.setattr(connection, "DRAIN_SECONDS", 0.1)

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(LAST))
        await peer.gone.wait()

    async with WireServer(handler, replying(OK)) as server:
        assert await _leave_after_the_first_batch(client, server.url) == LAST
        assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 2
        await server.peers[0].gone.wait()


async def test_a_reader_left_behind_gets_nothing_of_the_next_reply(client: Client) -> None:
    async with WireServer(replying(head(200, [("content-length", "5")]) + b"first"), replying(OK)) as server:
        async with client.ask(server.url) as asked:
            batches = asked.answer.batches()
            assert await anext(batches) == b"first"
        async with client.ask(server.url) as other:
            with pytest.raises((StopAsyncIteration, DragomanError)):
                await anext(batches)
            assert await other.body() == b"first"


async def test_a_watch_that_is_over_does_not_touch_the_next_reply(client: Client) -> None:
    async with WireServer(replying(OK)) as server:
        async with client.ask(server.url) as asked:
            assert await asked.body() == b"ok"
            await asked.answer.close()
            async with client.ask(server.url) as other:
                asked.watch.expire(UpstreamTimeout("idle", 1))
                assert await other.body() == b"ok"
        assert len(server.peers) == 1


async def test_a_response_that_was_not_read_is_cut(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.gone.wait()

    async with WireServer(handler) as server:
        async with client.ask(server.url) as asked:
            assert asked.status == 200
        await server.peers[0].gone.wait()
