"""Hijackable connections: which requests can hijack them, and who is notified of what afterwards."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from aiohttp import web

from dragoman.aio.downstream.hijack import HELD_MAX, HijackableConnection, HijackServer
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.downstream.memory_transport import MemoryTransport
from dragoman.aio.few_per_turn import CANCELS, READS, FewPerTurn
from support.waiting import turns, until

ASKED = b"GET /taken HTTP/1.1\r\nhost: x\r\n\r\n"


def posted(text: str) -> bytes:
    """A request with a body that ends as all of them."""
    body = f'{{"text": "{text}", "stream": true}}'
    return f"POST /taken HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


SHORT, LONG = posted("x"), posted("x" * 1000)
HEAD, _, BODY = LONG.rpartition(b"\r\n\r\n")
CHUNKED = b"POST /taken HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
ELSEWHERE = b"HEAD /elsewhere HTTP/1.1\r\nhost: x\r\n\r\n"


class HijackedServer:
    """A server with one handler, whose coroutine waits for `going` and can be hijacked while it waits."""

    def __init__(self) -> None:
        self.going: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.log: list[str] = []
        self.connection: HijackableConnection | None = None
        self.request: weakref.ref[web.Request] | None = None
        self.port = 0

    async def handler(self, request: web.Request) -> web.StreamResponse:
        connection = self.connection = HijackableConnection.of(request)
        assert connection is not None
        self.request = weakref.ref(request)
        await request.read()
        try:
            response: web.StreamResponse = await connection.run_detachable(self.work())
        except asyncio.CancelledError:
            self.log.append("handler cancelled")
            raise
        self.log.append("handler done")
        return response

    async def work(self) -> web.StreamResponse:
        going = self.going
        try:
            await asyncio.wait({going})
        except asyncio.CancelledError:
            if not going.done():
                self.log.append("work cancelled")
                raise
        await asyncio.sleep(0)
        self.log.append("work done")
        return web.Response(text="all")

    def connection_lost(self) -> None:
        self.log.append("lost")


@asynccontextmanager
async def serving(
    *reads: bytes, at_once: bool = True
) -> AsyncIterator[tuple[HijackedServer, HijackRunner, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client that has sent `reads`, by default a request of `/taken`. Yields server, runner and client."""
    server = HijackedServer()
    app = web.Application()
    app.router.add_route("*", "/taken", server.handler)
    runner = HijackRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        await until(lambda: runner.connections and runner.connections.connections)
        assert runner.connections is not None
        (http,) = runner.connections.server.connections
        assert http.transport is not None
        connection = http.transport.get_protocol()
        assert isinstance(connection, HijackableConnection)
        for data in reads or (ASKED,):
            connection.data_received(data)
            if not at_once:
                await turns()
        await until(lambda: server.connection)
        yield server, runner, reader, writer
        writer.close()
    finally:
        await runner.cleanup()


async def test_a_reply_that_is_not_hijacked_is_awaited() -> None:
    async with serving() as (server, _, reader, _):
        server.going.set_result(None)
        assert b"\r\n\r\nall" in await reader.readuntil(b"all")
        assert server.log == ["work done", "handler done"]
        assert server.connection is not None
        assert server.connection.task is None


async def test_a_disconnection_cancels_a_reply_that_is_not_hijacked() -> None:
    async with serving() as (server, _, _, writer):
        writer.transport.abort()
        await until(lambda: server.log)
        assert server.log == ["work cancelled", "handler cancelled"]


async def test_hijacking_ends_the_handler_and_not_the_coroutine() -> None:
    async with serving() as (server, runner, reader, _):
        assert server.connection is not None
        assert runner.connections is not None
        assert repr(server.connection) == "<HijackableConnection aiohttp requests=1 held=0>"
        resume = server.connection.hijack(server, True, web.Response())
        assert resume is not None
        assert repr(server.connection) == "<HijackableConnection hijacked held=0>"
        await until(lambda: server.log)
        assert server.log == ["handler done"]
        await turns()
        assert server.connection._transport is not None
        server.connection._transport.write(b"reply")
        assert await reader.read(100) == b"reply"  # and nothing of the handler's response before it
        assert server.connection.hijack(server, True, web.Response()) is None
        assert runner.connections.connections == [server.connection]
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert server.log == ["handler done", "work done"]
        assert len(runner.connections.server.connections) == 1


async def test_hijacking_frees_the_request_without_the_garbage_collector() -> None:
    async with serving() as (server, _, _, _):
        assert server.connection is not None
        assert server.request is not None
        early: web.StreamResponse | None = web.Response()
        response = weakref.ref(early)
        gc.collect()
        gc.disable()
        try:
            resume = server.connection.hijack(server, True, early)
            early = None
            assert resume is not None
            await until(lambda: server.log)
            await turns()
            assert server.request() is None
            assert response() is None
        finally:
            gc.enable()
        server.going.set_result(None)
        await turns()
        resume()


async def test_a_hijacked_reply_is_notified_at_once_of_a_disconnection() -> None:
    async with serving() as (server, runner, _, writer):
        assert server.connection is not None
        assert runner.connections is not None
        resume = server.connection.hijack(server, True, web.Response())
        assert resume is not None
        writer.transport.abort()
        await until(lambda: "lost" in server.log)
        assert server.log == ["handler done", "lost"]
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert not runner.connections.connections


async def test_nothing_is_hijacked_while_the_server_closes() -> None:
    async with serving() as (server, runner, _, _):
        assert server.connection is not None
        assert runner.connections is not None
        runner.connections.closing = True
        assert server.connection.hijack(server, True, web.Response()) is None
        server.going.set_result(None)


async def test_drain_raises_when_the_client_disconnects() -> None:
    async with serving() as (server, _, _, writer):
        connection = server.connection
        assert connection is not None
        resume = connection.hijack(server, True, web.Response())
        assert resume is not None
        connection.pause_writing()
        draining = asyncio.create_task(connection.drain())
        await turns()
        assert not draining.done()
        writer.transport.abort()
        with pytest.raises(ConnectionResetError):
            await draining
        assert "lost" not in server.log
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: "work done" in server.log)


async def test_aiohttp_does_not_get_back_the_connection_of_a_client_that_disconnected() -> None:
    """Its further requests are not served, and its connection is not kept."""
    async with serving() as (server, runner, _, writer):
        connection = server.connection
        assert connection is not None
        assert runner.connections is not None
        resume = connection.hijack(server, True, web.Response())
        transport = connection._transport
        assert resume is not None
        assert transport is not None
        connection.data_received(ASKED)
        transport.write(bytes(1 << 23))
        writer.write_eof()
        await until(transport.is_closing)
        assert connection._transport is transport
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert not runner.connections.connections
        connection.abort()


async def test_reading_stays_paused_while_aiohttp_has_many_requests() -> None:
    """Its queue has an end, and so has what it takes of a connection."""
    async with serving() as (server, runner, reader, _):
        connection = server.connection
        assert connection is not None
        assert runner.connections is not None
        resume = connection.hijack(server, True, web.Response())
        transport = connection._transport
        assert resume is not None
        assert transport is not None
        held = 40 * ASKED.replace(b"\r\n\r\n", b"\r\nx-long: %b\r\n\r\n" % bytes(b"a" * 2000))
        assert len(held) > HELD_MAX
        connection.data_received(held)
        assert not transport.is_reading()
        server.going.set_result(None)
        await turns()
        server.going = asyncio.get_running_loop().create_future()
        resume()
        await until(lambda: connection.task and not connection._server.hijacked)
        assert not transport.is_reading()
        server.going.set_result(None)
        for _ in range(40):
            await reader.readuntil(b"\r\n\r\nall")
        assert transport.is_reading()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "reads",
    [
        pytest.param((LONG,), id="one read"),
        pytest.param((HEAD + b"\r\n\r\n", BODY), id="head and body"),
        pytest.param((LONG[:-500], LONG[-500:]), id="cut in the body"),
        pytest.param((ELSEWHERE, LONG), id="behind a request without a body"),
        pytest.param((ELSEWHERE, ELSEWHERE, HEAD + b"\r\n\r\n", BODY[:9], BODY[9:]), id="behind two, in pieces"),
    ],
)
async def test_a_connection_is_hijacked_if_only_its_request_was_read(reads: tuple[bytes, ...], at_once: bool) -> None:
    async with serving(*reads, at_once=at_once) as (server, _, _, _):
        assert server.connection is not None
        resume = server.connection.hijack(server, True, web.Response())
        assert resume is not None
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: "work done" in server.log)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("reads", "replies"),
    [
        pytest.param((LONG + SHORT,), 2, id="another one in one read"),
        pytest.param((LONG, SHORT), 2, id="another one in a read of its own"),
        pytest.param((LONG, LONG), 2, id="the same"),
        pytest.param((LONG[:-9], LONG[-9:] + SHORT), 2, id="another one behind the end of its body"),
        pytest.param((LONG[:-9], LONG[-9:] + LONG), 2, id="the same behind the end of its body"),
        pytest.param((LONG + HEAD + b"\r\n\r\n", BODY), 2, id="the same body behind the head that came with it"),
        pytest.param((LONG, ELSEWHERE), 1, id="one without a body"),
        pytest.param((LONG + SHORT[:9],), 1, id="a beginning"),
        pytest.param((LONG, SHORT[:9]), 1, id="a beginning in a read of its own"),
        pytest.param((CHUNKED,), 1, id="chunked"),
        pytest.param((CHUNKED, LONG), 2, id="chunked, and another one"),
    ],
)
async def test_a_connection_is_not_hijacked_if_more_than_its_request_was_read(
    reads: tuple[bytes, ...], replies: int, at_once: bool
) -> None:
    async with serving(*reads, at_once=at_once) as (server, _, reader, _):
        assert server.connection is not None
        assert server.connection.hijack(server, True, web.Response()) is None
        server.going.set_result(None)
        for _ in range(replies):
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nall")


async def test_a_connection_is_hijacked_after_pipelined_requests_were_answered() -> None:
    async with serving(LONG + LONG) as (server, _, reader, _):
        connection = server.connection
        assert connection is not None
        assert connection.hijack(server, True, web.Response()) is None
        server.going.set_result(None)
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\nall")
        server.going = asyncio.get_running_loop().create_future()
        connection.data_received(LONG)
        await until(lambda: connection.task)
        resume = connection.hijack(server, True, web.Response())
        assert resume is not None
        server.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not connection._server.hijacked)


async def test_a_turn_cancels_few_of_many_requests() -> None:
    """Clients leave while their requests are handled by aiohttp."""
    begun, cancelled = 0, 0

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal begun, cancelled
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            cancelled += 1
        raise AssertionError

    server = HijackServer(web.Server(answer, handler_cancellation=True))
    server.cancels = FewPerTurn(CANCELS, clock=lambda: 0.0)
    connections = [HijackableConnection(server) for _ in range(3 * CANCELS)]
    for connection in connections:
        connection.connection_made(MemoryTransport(connection, {}, lambda: None))
        connection.data_received(ASKED)
    await until(lambda: begun == len(connections))
    for connection in connections:
        connection.connection_lost(None)
    found = []
    while cancelled < begun:
        await asyncio.sleep(0)
        found.append(cancelled)
    assert max(after - before for before, after in pairwise([0, *found])) <= CANCELS


class Wire(MemoryTransport):
    """Records whether reading is paused."""

    paused = False

    @property
    def written(self) -> bytes:
        """All that was written."""
        return b"".join(self._written)

    def pause_reading(self) -> None:
        """Read no more."""
        self.paused = True

    def resume_reading(self) -> None:
        """Read on."""
        self.paused = False


async def text(request: web.BaseRequest) -> web.StreamResponse:
    """Answer with the request's path."""
    return web.Response(text=request.path)


def connected(server: HijackServer, count: int) -> list[tuple[HijackableConnection, Wire]]:
    """Make connections in one turn."""
    made = []
    for _ in range(count):
        connection = HijackableConnection(server)
        wire = Wire(connection, {}, lambda: None)
        connection.connection_made(wire)
        made.append((connection, wire))
    return made


@pytest.mark.parametrize("count", [1, READS, READS + 1, 5 * READS])
async def test_a_turn_begins_few_of_many_connections_and_parses_few_requests(count: int) -> None:
    """The others read nothing until their turn. Nothing is lost, and each client is answered."""
    server = HijackServer(web.Server(text, handler_cancellation=True))
    server.reads = FewPerTurn(READS, clock=lambda: 0.0)
    made = connected(server, count)
    for connection, wire in made:
        assert wire.paused is ("waiting" in repr(connection))
    begun = [sum("aiohttp" in repr(connection) for connection, _ in made)]
    while begun[-1] < count:
        await asyncio.sleep(0)
        begun.append(sum("aiohttp" in repr(connection) for connection, _ in made))
    steps = [after - before for before, after in pairwise([0, *begun])]
    assert steps[0] <= 2 * READS, "a few more while few connections are open"
    assert max([0, *steps[1:]]) <= READS
    assert not any(wire.paused for _, wire in made)
    server.reads = FewPerTurn(READS, clock=lambda: 0.0)
    for number, (connection, _) in enumerate(made):
        connection.data_received(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number)
    waiting = sum(wire.paused for _, wire in made)
    assert waiting == (max(0, count - READS) if count > READS else 0)
    await until(lambda: all(b"200" in wire.written for _, wire in made))
    for number, (connection, wire) in enumerate(made):
        assert wire.written.endswith(b"/%d" % number)
        connection.connection_lost(None)


async def test_what_arrives_before_the_turn_is_kept() -> None:
    server = HijackServer(web.Server(text, handler_cancellation=True))
    server.reads = FewPerTurn(READS, clock=lambda: 0.0)
    made = connected(server, 3 * READS)
    connection, wire = made[-1]
    for byte in ASKED:
        connection.data_received(bytes([byte]))
    await until(lambda: wire.written.endswith(b"/taken"))
    for each, _ in made:
        each.connection_lost(None)


async def test_a_client_that_leaves_before_its_turn() -> None:
    """It never had a handler; and no handler gets it later."""
    server = HijackServer(web.Server(text, handler_cancellation=True))
    server.reads = FewPerTurn(READS, clock=lambda: 0.0)
    made = connected(server, 3 * READS)
    for connection, _ in made:
        connection.connection_lost(None)
    await turns(3 * READS)
    assert server.open.count == 0
    assert not server.connections


async def test_a_server_that_stops_closes_the_connections_that_wait() -> None:
    server = HijackServer(web.Server(text, handler_cancellation=True))
    server.reads = FewPerTurn(READS, clock=lambda: 0.0)
    made = connected(server, 3 * READS)
    waiting = [wire for connection, wire in made if "waiting" in repr(connection)]
    server.closing = True
    await turns(3 * READS)
    assert waiting
    assert all(wire.is_closing() for wire in waiting)
