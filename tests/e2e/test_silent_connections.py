"""Connections that are silent, or too little: they end in time, and there are not more of them than may be."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from dragoman.aio.downstream import request_handler
from dragoman.aio.downstream.connection_limits import ConnectionLimits, margin
from dragoman.aio.downstream.hijack import HijackableConnection
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.downstream.request_handler import RequestHandler
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.timer_wheel import timer_wheel
from dragoman.aio.unsent import unsent
from dragoman_server.app import make_app
from dragoman_server.config.schema import Server
from dragoman_server.observability.metric_families import MALFORMED, REFUSED_CONNECTIONS, Totals
from dragoman_server.proxy.unhandled_requests import connection_limits
from dragoman_server.workers.listeners import Listeners
from dragoman_server.workers.serve import running
from support import samples
from support.exposed import read_exposition, total
from support.gateways import CHAT, MESSAGES, config_for, until
from support.samples import PATHS, dump, read_error, request, text_stream
from support.sockets import ScriptedServer, answer, stream

BOTH_LOOPS = True
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")
SYSTEMS_MOST = int(_SOMAXCONN.read_text()) if _SOMAXCONN.exists() else 0
NOWHERE = "http://127.0.0.1:9"
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Limited:
    """A gateway with limits on its connections."""

    def __init__(self, runner: HijackRunner, totals: Totals) -> None:
        assert runner.connections is not None
        self.lines = runner.connections
        self.totals = totals
        self.port = runner.addresses[0][1]
        self.pairs: list[Pair] = []

    def handler(self) -> RequestHandler:
        """The handler of the only connection."""
        (http,) = self.lines.server.connections
        assert isinstance(http, RequestHandler)
        return http

    def line(self) -> HijackableConnection:
        """The line of the only connection."""
        transport = self.handler().transport
        assert transport is not None
        line = transport.get_protocol()
        assert isinstance(line, HijackableConnection)
        return line

    async def late(self, come: bytes) -> None:
        """The only connection's time for a head is up, when so much of it has come."""
        await until(lambda: come in self.handler()._head_start)
        handler = self.handler()
        handler.on_tick(handler._head_deadline - 0.001)
        assert handler.transport is not None
        handler.on_tick(handler._head_deadline)

    async def connect(self, **more: Any) -> Pair:
        """A client."""
        pair = await asyncio.open_connection("127.0.0.1", self.port, **more)
        self.pairs.append(pair)
        return pair


@asynccontextmanager
async def limited(url: str = NOWHERE, *, timeouts: Timeouts | None = None, **server: Any) -> AsyncIterator[Limited]:
    config = config_for(url, CHAT, timeouts=timeouts, **server)
    totals = Totals()
    runner = HijackRunner(make_app(config), shutdown_timeout=0.2, limits=connection_limits(config.server, totals))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        gateway = Limited(runner, totals)
        async with asyncio.timeout(30):
            yield gateway
        for _, writer in gateway.pairs:
            writer.close()
    finally:
        await runner.cleanup()


async def whole(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Status, head and body of one reply."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(head[9:12]), head.lower(), await reader.readexactly(int(lengths[0][15:]))


async def test_a_connection_that_is_silent_is_closed() -> None:
    async with limited(timeouts=Timeouts(head=0.03)) as gateway:
        reader, _ = await gateway.connect()
        assert await reader.read() == b""
        await until(lambda: not gateway.lines.open.count)
        assert not gateway.lines.connections


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models"])
@pytest.mark.parametrize("behind", [False, True], ids=["first", "behind another"])
async def test_a_head_that_does_not_end_is_a_408_of_the_endpoints_dialect(path: str, behind: bool) -> None:
    client = {endpoint: dialect for dialect, endpoint in PATHS.items()}.get(path, CHAT)
    async with limited(timeouts=Timeouts(head=50)) as gateway:
        reader, writer = await gateway.connect()
        if behind:
            writer.write(HEALTH)
            assert (await whole(reader))[0] == 200
        writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-".encode())
        await gateway.late(b"content-")
        status, head, body = await whole(reader)
        assert status == 408
        assert b"\r\nconnection: close\r\n" in head
        assert b"\r\nserver: dragoman\r\n" in head
        assert "the request's head did not end within 50 s (timeouts.head)" in read_error(client, body).message
        assert await reader.read() == b""
        assert gateway.totals.read(MALFORMED) == [0]  # that is the log's part, which `dragoman serve` has


async def test_a_head_that_drips_does_not_last() -> None:
    """Its time is counted from its first byte."""
    async with limited(timeouts=Timeouts(head=50)) as gateway:
        reader, writer = await gateway.connect()
        writer.write(b"GET / HTTP/1.1\r\n")
        await until(lambda: b"GET" in gateway.handler()._head_start)
        due = gateway.handler()._head_deadline
        for number in range(100):
            writer.write(b"x-%d: b\r\n" % number)
            await writer.drain()
        await until(lambda: b"x-99" in gateway.handler()._head_start)
        assert gateway.handler()._head_deadline == due
        await gateway.late(b"x-99")
        assert (await whole(reader))[0] == 408


async def test_a_connection_without_a_further_request_ends_later() -> None:
    """Its first request has come: it has `keep_alive`, whatever `head` states. An empty line is no beginning."""
    async with limited(timeouts=Timeouts(head=0.02, keep_alive=0.2)) as gateway:
        reader, writer = await gateway.connect()
        loop = asyncio.get_running_loop()
        for _ in range(2):
            writer.write(HEALTH + b"\r\n")
            assert (await whole(reader))[0] == 200
        since = loop.time()
        assert not len(timer_wheel(loop, 0.005))
        assert await reader.read() == b""
        assert loop.time() - since > 0.1


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_request_that_is_there_is_not_watched(at_once: bool) -> None:
    async with limited(timeouts=Timeouts(head=8)) as gateway:
        reader, writer = await gateway.connect()
        wheel = timer_wheel(asyncio.get_running_loop(), 1.0)
        await until(lambda: len(wheel) == 1)
        if not at_once:
            writer.write(HEALTH[:9])
            await writer.drain()
        writer.write(HEALTH if at_once else HEALTH[9:])
        assert (await whole(reader))[0] == 200
        assert not len(wheel)
        writer.close()
        await until(lambda: not gateway.lines.open.count)
        reader, writer = await gateway.connect()
        await until(lambda: len(wheel) == 1)
        writer.close()
        await until(lambda: not gateway.lines.open.count)
        assert not len(wheel)


async def test_behind_a_stream_of_its_own_a_connection_may_stay_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A taken reply gives its connection to a new handler, for which it is not a new one."""
    from dragoman.aio.downstream.response import DownstreamResponse

    flush = DownstreamResponse.flush

    def flush_and_settle(client: DownstreamResponse) -> None:
        flush(client)
        client.detach()

    monkeypatch.setattr(DownstreamResponse, "flush", flush_and_settle)
    asked = dump(request(MESSAGES, stream=True))
    head = f"POST {PATHS[MESSAGES]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(asked)}\r\n\r\n".encode()
    async with (
        ScriptedServer(stream(text_stream(CHAT, counted=True), pause=0.002)) as server,
        limited(server.url, timeouts=Timeouts(head=8)) as gateway,
    ):
        reader, writer = await gateway.connect()
        for _ in range(2):
            writer.write(head + asked)
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await until(lambda: not gateway.lines.hijacked)
            assert not len(timer_wheel(asyncio.get_running_loop(), 1.0))


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models"])
async def test_one_connection_too_many_is_a_503_of_the_endpoints_dialect(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    client = {endpoint: dialect for dialect, endpoint in PATHS.items()}.get(path, CHAT)
    async with limited(max_connections=8) as gateway:
        first = [await gateway.connect() for _ in range(8)]
        await until(lambda: gateway.lines.open.count == 8)
        for _ in range(3):
            reader, writer = await gateway.connect()
            writer.write(
                f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n".encode() + bytes(3000000)
            )
            status, head, body = await whole(reader)
            assert status == 503
            assert b"\r\nretry-after: 1\r\n" in head
            assert "as many connections as it may have" in read_error(client, body).message
            writer.close()
        assert gateway.totals.read(REFUSED_CONNECTIONS, "max_connections") == [3]
        assert len([line for line in caplog.messages if "more than server.max_connections allows" in line]) == 1
        for reader, writer in first:
            writer.write(HEALTH)
            assert (await whole(reader))[0] == 200
            writer.close()
        await until(lambda: not gateway.lines.open.count)
        reader, writer = await gateway.connect()
        writer.write(HEALTH)
        assert (await whole(reader))[0] == 200


async def test_far_too_many_are_dropped() -> None:
    most = 8 + margin(8)
    async with limited(max_connections=8) as gateway:
        for _ in range(most):
            await gateway.connect()
        await until(lambda: gateway.lines.open.count == most)
        reader, writer = await gateway.connect()
        writer.write(HEALTH)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: gateway.lines.open.count == most)
        assert gateway.totals.read(REFUSED_CONNECTIONS, "max_connections") == [1]


async def test_a_silent_client_makes_room_for_an_active_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest first; a connection that has served a request is no such one."""
    monkeypatch.setattr(request_handler, "GRACE", 0.0)
    async with limited(max_connections=3) as gateway:
        served, served_writer = await gateway.connect()
        served_writer.write(HEALTH)
        assert (await whole(served))[0] == 200
        half, half_writer = await gateway.connect()
        half_writer.write(b"POST /v1/messages HTTP/1.1\r\n")
        silent, _ = await gateway.connect()
        await until(lambda: gateway.lines.open.count == 3)
        for reader in (half, silent):
            fresh, writer = await gateway.connect()
            writer.write(HEALTH)
            assert (await whole(fresh))[0] == 200
            if reader is half:
                status, _, body = await whole(half)
                assert status == 503
                assert "as many connections" in read_error(MESSAGES, body).message
            assert await reader.read() == b""
        fresh, writer = await gateway.connect()
        writer.write(HEALTH)
        assert (await whole(fresh))[0] == 503
        served_writer.write(HEALTH)
        assert (await whole(served))[0] == 200


async def test_a_new_connection_has_its_time_before_it_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_handler, "GRACE", 60.0)
    async with limited(max_connections=1) as gateway:
        first, first_writer = await gateway.connect()
        await until(lambda: gateway.lines.open.count == 1)
        fresh, writer = await gateway.connect()
        writer.write(HEALTH)
        assert (await whole(fresh))[0] == 503
        first_writer.write(HEALTH)
        assert (await whole(first))[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
async def test_an_address_has_a_limit_of_its_own() -> None:
    async with limited(max_connections_per_address=1) as gateway:
        for address, fine in (("127.0.0.1", True), ("127.0.0.1", False), ("127.0.0.2", True), ("127.0.0.2", False)):
            reader, writer = await gateway.connect(local_addr=(address, 0))
            writer.write(HEALTH)
            assert (await whole(reader))[0] == (200 if fine else 503)
        assert gateway.totals.read(REFUSED_CONNECTIONS, "max_connections_per_address") == [2]
        for _, writer in gateway.pairs:
            writer.close()
        await until(lambda: not gateway.lines.open.count)
        assert not gateway.lines.open._by_address
        reader, writer = await gateway.connect()
        writer.write(HEALTH)
        assert (await whole(reader))[0] == 200


async def test_who_is_refused_is_dropped_when_the_gateway_stops() -> None:
    async with limited(max_connections=1) as gateway:
        await gateway.connect()
        reader, _ = await gateway.connect()
        await until(lambda: gateway.lines.open.ending)
    with suppress(ConnectionError):
        assert await reader.read() == b""


def test_half_of_the_files_are_for_clients() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connection_limits(Server(), Totals()).connections == (0 if soft == resource.RLIM_INFINITY else soft // 2)
    assert connection_limits(Server(max_connections=7), Totals()).connections == 7
    timeouts = Timeouts(head=3, keep_alive=4)
    made = connection_limits(Server(timeouts=timeouts, max_connections_per_address=5), Totals())
    assert (made.head, made.keep_alive, made.per_address) == (3, 4, 5)
    assert ConnectionLimits().connections == 0


async def test_the_command_has_them_and_counts() -> None:
    config = config_for(NOWHERE, CHAT, port=0, timeouts=Timeouts(head=1), max_connections=2)
    async with running(config) as up, ClientSession() as session, asyncio.timeout(30):
        port = int(up.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\n")
        assert (await whole(reader))[0] == 408
        writer.close()
        async with session.get(up.url + "/metrics") as response:
            counted = read_exposition(await response.read())
    assert total(counted, "dragoman_malformed_requests_total") == 1


def _backlog_of(sock: socket.socket) -> int:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    value: int = struct.unpack_from("=I", info, 28)[0]  # tcpi_sacked, of a listening socket its backlog
    return value


def _listening_on(port: int) -> list[socket.socket]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            sock = socket.socket(fileno=os.dup(int(name)))
            listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and sock.getsockname()[1] == port
            found += [sock] if listens else []
            if not listens:
                sock.close()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="read from Linux' TCP_INFO")
@pytest.mark.parametrize("backlog", [1024, 77])
async def test_the_queue_of_waiting_connections_is_the_same_for_one_process_and_for_workers(backlog: int) -> None:
    expected = min(backlog, SYSTEMS_MOST)
    config = config_for(NOWHERE, CHAT, port=0)
    if backlog != config.server.backlog:
        config = replace(config, server=replace(config.server, backlog=backlog))
    async with running(config) as up:
        (sock,) = _listening_on(int(up.url.rpartition(":")[2]))
        assert _backlog_of(sock) == expected
        sock.close()
    shared = Listeners("127.0.0.1", 0)
    shared.listen(config.server.backlog)
    assert [_backlog_of(sock) for group in shared.groups for sock in group] == [expected]
    shared.close()


# --- clients that do not read ----------------------------------------------------------------------------------------


@asynccontextmanager
async def unread(write: float) -> AsyncIterator[tuple[Limited, socket.socket]]:
    """A client that has asked for a whole reply of 12 MiB and reads nothing of it."""
    reply = {**samples.reply(CHAT)}
    reply["choices"][0]["message"]["content"] = "x" * (12 << 20)
    body = dump(request(MESSAGES))
    head = f"POST {PATHS[MESSAGES]} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    async with (
        ScriptedServer(answer(200, dump(reply))) as server,
        limited(server.url, timeouts=Timeouts(write=write)) as gateway,
    ):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", gateway.port))
            await loop.sock_sendall(client, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            yield gateway, client


async def test_a_client_that_does_not_read_a_whole_reply_is_reset() -> None:
    async with unread(write=0.05) as (gateway, client):
        await until(lambda: gateway.lines.open.count == 1)
        await until(lambda: gateway.lines.open.count == 0)
        events = select.poll()
        events.register(client, select.POLLIN)
        await until(lambda: events.poll(0)[0][1] & select.POLLERR)  # reset: the kernel keeps nothing for it


async def test_a_client_that_reads_a_whole_reply_slowly_keeps_its_connection() -> None:
    async with unread(write=50.0) as (gateway, client):
        await until(lambda: gateway.lines.open.count == 1 and gateway.line()._write_timer is not None)
        line = gateway.line()
        transport = line._transport
        assert transport is not None
        # The kernel takes little at a time, so that the buffer shrinks and is not empty.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        before = unsent(transport)
        received = 0
        while unsent(transport) >= before:
            received += len(await asyncio.get_running_loop().sock_recv(client, 1 << 20))
        assert line._write_timer is not None
        line._check_write(before, 1)
        assert not transport.is_closing()
        while data := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
            received += len(data)
            if received > 12 << 20:
                break
        await until(lambda: line._write_timer is None)
