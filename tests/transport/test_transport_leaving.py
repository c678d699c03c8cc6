"""Leaving early and running out of time: cancellation, the named timeouts, and what the watch fails a call with."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import pytest

from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.errors import DragomanError, Failure, FailureKind, UpstreamTimeout, UpstreamUnreachable
from support.sockets import chunk, head
from support.transports import Client, open_sockets
from support.waiting import at_once, turns, until
from support.wire_server import Peer, WireServer, replying, silent

STEPPED = True
EVENT = b"data: {}\n\n"
OK = head(200, [("content-length", "2")]) + b"ok"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port that answers no connection attempt: its backlog is full and it does not accept."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as listener:
        port: int = listener.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(("127.0.0.1", port))
            yield port
        finally:
            for one in waiting:
                one.close()


async def begun(peer: Peer) -> None:
    """A handler that begins a stream and then only waits for the client to go."""
    await peer.request()
    await peer.send(CHUNKED + chunk(EVENT))
    await peer.gone.wait()


@asynccontextmanager
async def calling(client: Client, url: str, timeouts: Timeouts | None = None) -> AsyncIterator[asyncio.Task[bytes]]:
    """A call in a task of its own, which has ended behind the block."""
    task = asyncio.create_task(client.body(url, timeouts=timeouts))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_cancelled_while_connecting(client: Client) -> None:
    with full_backlog() as port:
        before = open_sockets()
        async with calling(client, f"http://127.0.0.1:{port}/") as call:
            await until(lambda: open_sockets() == before + 1)
            await turns()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: open_sockets() == before)


async def test_cancelled_while_waiting_for_the_head(client: Client) -> None:
    async with WireServer(silent, replying(OK)) as server, calling(client, server.url) as call:
        await until(lambda: server.requests)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await at_once(server.peers[0].gone)
        assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 2


async def test_cancelled_while_the_request_is_sent(client: Client) -> None:
    """The server reads nothing: most of the body is still here."""

    async def deaf(peer: Peer) -> None:
        peer.transport.pause_reading()
        await asyncio.Event().wait()

    async with WireServer(deaf) as server:
        before = open_sockets()
        task = asyncio.create_task(client.body(server.url, b"x" * 20_000_000))
        await server.peer(0)
        await turns(20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: open_sockets() == before + 1, 0.3 if client.name == "aiohttp" else 5.0)


async def test_cancelled_in_the_middle_of_the_body(client: Client) -> None:
    async with WireServer(begun, replying(OK)) as server, calling(client, server.url) as call:
        await until(lambda: server.peers and server.peers[0].sent)
        await turns(10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await at_once(server.peers[0].gone)
        assert await client.body(server.url) == b"ok"


async def test_refused(client: Client) -> None:
    async with WireServer(silent) as server:
        url = server.url
    with pytest.raises(UpstreamUnreachable, match="cannot connect to the upstream") as raised:
        await client.body(url, headers={"authorization": "sk-very-secret"})
    assert "secret" not in str(raised.value)


async def test_an_unknown_host_name(client: Client) -> None:
    """The top-level domain `invalid` is reserved for that (RFC 6761)."""
    with pytest.raises(UpstreamUnreachable, match="cannot connect to the upstream"):
        await client.body("http://unknown.invalid:1/")


async def test_the_connect_timeout(client: Client) -> None:
    with full_backlog() as port, pytest.raises(UpstreamTimeout) as raised:
        await client.body(f"http://127.0.0.1:{port}/", timeouts=Timeouts(connect=0.05))
    assert raised.value.timer == "connect"


async def test_the_first_byte_timeout_before_the_head(client: Client) -> None:
    async with WireServer(silent) as server:
        with pytest.raises(UpstreamTimeout) as raised:
            await client.body(server.url, timeouts=Timeouts(first_byte=0.1))
        assert raised.value.timer == "first_byte"
        for peer in server.peers:
            await peer.gone.wait()


async def test_the_first_byte_timeout_behind_the_head(client: Client) -> None:
    async with WireServer(replying(CHUNKED)) as server:
        with pytest.raises(UpstreamTimeout) as raised:
            await client.body(server.url, timeouts=Timeouts(first_byte=0.2))
        assert raised.value.timer == "first_byte"
        for peer in server.peers:
            await peer.gone.wait()


async def test_the_idle_timeout(client: Client) -> None:
    async with WireServer(begun) as server:
        async with client.ask(server.url, timeouts=Timeouts(idle=0.05)) as asked:
            pieces: list[bytes] = []
            with pytest.raises(UpstreamTimeout) as raised:
                await asked.pieces(pieces)
        assert pieces == [EVENT]
        assert raised.value.timer == "idle"
        await server.peers[0].gone.wait()


WORD = Failure(FailureKind.OVERLOADED, "the last word", 503)


async def test_the_watch_fails_a_call_that_connects(client: Client) -> None:
    with full_backlog() as port:
        before = open_sockets()
        watch = StreamTimers(Timeouts())
        call = UpstreamRequest(f"http://127.0.0.1:{port}/", {}, b"{}", True, Timeouts())
        task = asyncio.create_task(client.upstream.open(call, watch))
        await until(lambda: open_sockets() == before + 1)
        await turns()
        watch.expire(DragomanError(WORD))
        with pytest.raises(DragomanError, match="the last word"):
            await task
        watch.stop()
        await until(lambda: open_sockets() == before)


async def test_the_watch_fails_a_call_that_waits_for_the_head(client: Client) -> None:
    async with WireServer(silent) as server:
        watch = StreamTimers(Timeouts())
        task = asyncio.create_task(
            client.upstream.open(UpstreamRequest(server.url, {}, b"{}", True, Timeouts()), watch)
        )
        await until(lambda: server.requests)
        watch.expire(DragomanError(WORD))
        with pytest.raises(DragomanError, match="the last word"):
            await task
        watch.stop()
        await at_once(server.peers[0].gone)


async def test_the_watch_fails_a_read(client: Client) -> None:
    """Bytes received before are read first."""
    async with WireServer(begun) as server:
        async with client.ask(server.url) as asked:
            pieces: list[bytes] = []
            reading = asyncio.create_task(asked.pieces(pieces))
            await until(lambda: pieces)
            asked.watch.expire(DragomanError(WORD))
            with pytest.raises(DragomanError, match="the last word"):
                await reading
        assert pieces == [EVENT]
        await at_once(server.peers[0].gone)


async def test_the_watch_fails_an_answer_before_it_is_read(client: Client) -> None:
    async with WireServer(begun) as server:
        async with client.ask(server.url) as asked:
            await turns(10)
            asked.watch.expire(DragomanError(WORD))
            with pytest.raises(DragomanError, match="the last word"):
                await asked.body()
        await at_once(server.peers[0].gone)


async def test_the_upstream_sees_the_end_before_the_next_turn(client: Client) -> None:
    """Thousands of clients may leave at a time: the last call does not wait for what follows the others' ends."""
    if client.name == "aiohttp":
        pytest.skip("aiohttp closes its connection in a later turn")

    def answered() -> socket.socket:
        upstream, _ = listener.accept()
        upstream.settimeout(30)
        upstream.recv(4096)
        upstream.sendall(CHUNKED + chunk(EVENT))
        return upstream

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(30)
        answering = asyncio.ensure_future(asyncio.to_thread(answered))
        async with client.ask(f"http://127.0.0.1:{listener.getsockname()[1]}/") as asked:
            with await answering as upstream:
                asked.watch.expire(ClientGone())
                assert upstream.recv(4096) == b"", "the loop does not run meanwhile"
