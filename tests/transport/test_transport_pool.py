"""Connections kept, reused, given up and limited; and what may be sent a second time (nothing)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.aio.upstream.aiohttp_transport import _ATTEMPTS
from dragoman.errors import DragomanError, UpstreamTimeout, UpstreamUnreachable
from support.sockets import chunk, head
from support.transports import Client, make, open_sockets
from support.waiting import turns, until
from support.wire_server import Peer, WireServer, replying, silent

LAST = b"data: [DONE]\n\n"
OK = head(200, [("content-length", "2")]) + b"ok"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


@pytest.fixture
async def narrow(client: Client) -> AsyncIterator[Client]:
    """The transport under test with at most two connections to one upstream."""
    upstream = make(client.name, PoolOptions(limit=2))
    yield Client(client.name, upstream)
    await upstream.close()


async def test_a_connection_is_used_again(client: Client) -> None:
    async with WireServer(replying(OK)) as server:
        for _ in range(5):
            assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 1
        assert len(server.requests) == 5


async def test_a_connection_is_used_again_behind_an_error_status(client: Client) -> None:
    async with WireServer(replying(head(500, [("content-length", "3")]) + b"no!")) as server:
        for _ in range(3):
            async with client.ask(server.url, stream=False) as asked:
                assert asked.status == 500
                assert await asked.answer.read(100) == b"no!"
        assert len(server.peers) == 1


async def test_servers_do_not_share_connections(client: Client) -> None:
    async with WireServer(replying(OK)) as one, WireServer(replying(OK)) as other:
        for server in (one, other, one, other):
            await client.body(server.url)
        assert len(one.peers) == len(other.peers) == 1
        assert len(one.requests) == len(other.requests) == 2


@pytest.mark.parametrize(
    "wire",
    [
        head(200, [("content-length", "2"), ("connection", "close")]) + b"ok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=["connection: close", "HTTP/1.0"],
)
async def test_a_connection_that_is_to_end_is_not_used_again(client: Client, wire: bytes) -> None:
    """The server keeps it open, perhaps waiting for the client to end it."""
    async with WireServer(replying(wire)) as server:
        for _ in range(2):
            assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 2
        await server.peers[0].gone.wait()


async def test_a_connection_that_the_server_closed_is_replaced(client: Client) -> None:
    """Stale keep-alive: the next call goes through at the first attempt, and is sent once."""
    async with WireServer(replying(OK)) as server:
        assert await client.body(server.url, b"first") == b"ok"
        server.peers[0].close()
        await server.peers[0].lost.wait()
        await turns()
        assert await client.body(server.url, b"second") == b"ok"
        assert [request.body for request in server.requests] == [b"first", b"second"]
        assert len(server.peers) == 2


async def test_an_end_that_crosses_the_request_never_sends_it_twice(client: Client) -> None:
    """The server's FIN came, but the event loop has not read it. The raw transport asks the kernel."""
    async with WireServer(replying(OK)) as server:
        assert await client.body(server.url, b"first") == b"ok"
        server.peers[0].shut_at_once()
        try:
            assert await client.body(server.url, b"second") == b"ok"
        except UpstreamUnreachable:
            assert client.name == "aiohttp"
        assert [request.body for request in server.requests].count(b"second") <= 1
        assert await client.body(server.url, b"third") == b"ok"


@pytest.mark.parametrize("reset", [False, True])
async def test_a_server_that_ends_a_used_connection_instead_of_answering(client: Client, reset: bool) -> None:
    """It may have acted on the request: a POST is not repeated."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK)
        await peer.request()
        if reset:
            peer.reset()
        else:
            peer.close()

    async with WireServer(handler, replying(OK)) as server:
        assert await client.body(server.url, b"first") == b"ok"
        with pytest.raises(UpstreamUnreachable):
            await client.body(server.url, b"second")
        assert await client.body(server.url, b"third") == b"ok"
        assert [request.body for request in server.requests] == [b"first", b"second", b"third"]


async def test_unexpected_bytes_end_an_idle_connection(client: Client) -> None:
    """They would be taken for the next reply."""
    async with WireServer(replying(OK)) as server:
        assert await client.body(server.url) == b"ok"
        await server.peers[0].send(head(408, [("content-length", "0"), ("connection", "close")]))
        assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 2


async def test_aiohttp_s_client_looks_for_a_fit_connection_so_often_and_no_longer() -> None:
    """A server that sends bytes on each new connection must not be connected to forever."""
    go = asyncio.Event()

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await go.wait()
            await peer.send(OK)

    client = Client("aiohttp", make("aiohttp"))
    async with WireServer(handler) as server:
        calls = [asyncio.create_task(client.body(server.url)) for _ in range(_ATTEMPTS + 1)]
        await until(lambda: len(server.requests) == len(calls))
        go.set()
        await asyncio.gather(*calls)
        for peer in server.peers:
            await peer.send(OK)
        with pytest.raises(UpstreamUnreachable, match="failed: unexpected bytes on an idle connection"):
            await client.body(server.url)
        assert await client.body(server.url) == b"ok"
        assert len(server.requests) == len(calls) + 1
        assert len(server.peers) == len(calls) + 1
    await client.upstream.close()


async def test_bytes_behind_a_reply_do_not_reach_the_next(client: Client) -> None:
    """In the same segment as the reply's end."""
    async with WireServer(replying(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")) as server:
        assert await client.body(server.url) == b"ok"
        assert await client.body(server.url) == b"ok"


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_a_call_over_the_limit_waits_for_a_connection(narrow: Client) -> None:
    go = asyncio.Event()

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await go.wait()
            await peer.send(OK)

    async with WireServer(handler) as server:
        calls = [asyncio.create_task(narrow.body(server.url, b"%d" % number)) for number in range(4)]
        await until(lambda: len(server.requests) == 2)
        await turns(20)
        assert len(server.requests) == len(server.peers) == 2
        assert not any(call.done() for call in calls)
        go.set()
        assert await asyncio.gather(*calls) == [b"ok"] * 4
        assert len(server.peers) == 2
        assert {request.body for request in server.requests[:2]} == {b"0", b"1"}, "those who wait do not overtake"


async def test_a_cut_connection_makes_room(narrow: Client) -> None:
    async with WireServer(silent, silent, replying(OK)) as server:
        calls = [asyncio.create_task(narrow.body(server.url)) for _ in range(2)]
        await until(lambda: len(server.requests) == 2)
        waiting = asyncio.create_task(narrow.body(server.url))
        await turns(20)
        assert not waiting.done()
        calls[0].cancel()
        assert await waiting == b"ok"
        calls[1].cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_cancelled_wait_takes_no_connection(narrow: Client) -> None:
    go = asyncio.Event()

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            await go.wait()
            await peer.send(OK)

    async with WireServer(handler) as server:
        calls = [asyncio.create_task(narrow.body(server.url)) for _ in range(4)]
        await until(lambda: len(server.requests) == 2)
        await turns(20)
        calls[2].cancel()
        go.set()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [x for x in done if x == b"ok"] == [b"ok"] * 3
        assert len(server.requests) == 3
        assert await narrow.body(server.url) == b"ok"


async def test_waiting_for_a_connection_has_an_end(narrow: Client) -> None:
    timeouts = Timeouts(connect=0.05, first_byte=0.2)
    async with WireServer(silent) as server:
        calls = [asyncio.create_task(narrow.body(server.url)) for _ in range(2)]
        await until(lambda: len(server.requests) == 2)
        with pytest.raises(UpstreamTimeout):
            await narrow.body(server.url, timeouts=timeouts)
        assert len(server.peers) == 2
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def test_those_who_wait_learn_that_the_server_is_away(client: Client) -> None:
    """A place that a failed attempt gives up goes to the next."""
    async with WireServer(silent) as server:
        url = server.url
    upstream = make(client.name, PoolOptions(limit=1))
    calls = [Client(client.name, upstream).body(url) for _ in range(3)]
    for failure in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(failure, UpstreamUnreachable)
    await upstream.close()


async def test_an_idle_connection_is_given_up_in_time(client: Client) -> None:
    upstream = make(client.name, PoolOptions(idle_seconds=0.05))
    async with WireServer(replying(OK)) as server:
        assert await Client(client.name, upstream).body(server.url) == b"ok"
        await server.peers[0].gone.wait()
        await upstream.close()


# --- closing ----------------------------------------------------------------------------------------------------------


async def test_close_leaves_no_socket(client: Client) -> None:
    """Neither those in use, nor those that wait, nor one that is finishing."""

    async def half(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED + chunk(LAST))
        await peer.gone.wait()

    async with WireServer(silent, half, replying(OK)) as server:
        before = open_sockets()
        upstream = make(client.name)
        own = Client(client.name, upstream)
        waiting = asyncio.create_task(own.body(server.url))
        await until(lambda: server.requests)
        async with own.ask(server.url) as asked:
            assert await anext(asked.answer.batches()) == LAST
            assert await own.body(server.url) == b"ok"
            assert open_sockets() == before + 6
            await upstream.close()
        with pytest.raises(DragomanError):
            await waiting
        for peer in server.peers:
            await peer.gone.wait()
        await until(lambda: open_sockets() <= before)


async def test_close_is_harmless_when_done_twice(client: Client) -> None:
    async with WireServer(replying(OK)) as server:
        assert await client.body(server.url) == b"ok"
        await client.upstream.close()
        await client.upstream.close()
