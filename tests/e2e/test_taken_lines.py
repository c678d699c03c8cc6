"""A long stream has its connection for itself: what aiohttp kept is gone, and what a client may do on it is not."""

from __future__ import annotations

import asyncio
import gc
import select
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import web

from dragoman.aio.downstream.hijack import HELD_MAX, HijackServer
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.downstream.response import DownstreamResponse
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.workers.drain import ConnectionDrain
from support.gateways import ALL, CHAT, MESSAGES, Gate, config_for, gate, served
from support.samples import PATHS, TEXT, dump, judge, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, chunk, sse_head, stream
from support.waiting import until

BOTH_LOOPS = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
SOON = Timeouts(write=0.25)
"""Streams are looked at every 31 ms: nothing here hangs on the time for a write."""


def asked(client: Dialect, *, head: str = "", encoded: bytes | None = None) -> bytes:
    """A streaming request, byte for byte."""
    body = dump(request(client, stream=True)) if encoded is None else encoded
    framing = f"content-length: {len(body)}" if encoded is None else "transfer-encoding: chunked"
    return f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\n{head}{framing}\r\n\r\n".encode() + body


@dataclass
class Scene:
    """A client's connection to a gateway whose upstream sends half a stream, and the rest when `going` is set."""

    client: Dialect
    gate: Gate
    going: asyncio.Event
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    rest: bytes = b""

    @property
    def lines(self) -> HijackServer:
        assert isinstance(self.gate.runner, HijackRunner)
        assert self.gate.runner.connections is not None
        return self.gate.runner.connections

    async def begin(self, data: bytes) -> None:
        """Ask, and read the stream's head and first chunk."""
        self.writer.write(data)
        assert (await self.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        self.rest = await self.reader.readuntil(b"\n\n\r\n")

    async def taken(self) -> None:
        """Wait until it is taken."""
        await until(lambda: self.lines.hijacked)

    async def end(self) -> None:
        """Let it end, and read the whole."""
        self.going.set()
        whole, self.rest = self.rest + await self.reader.readuntil(b"\r\n0\r\n\r\n"), b""
        body = b""
        while whole != b"0\r\n\r\n":
            size, _, whole = whole.partition(b"\r\n")
            body += whole[: int(size, 16)]
            whole = whole[int(size, 16) + 2 :]
        assert judge(self.client, body).text == TEXT

    async def replied(self) -> None:
        """Read one more stream, from its head on."""
        assert (await self.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await self.end()


@asynccontextmanager
async def scene(client: Dialect, upstream: Dialect, timeouts: Timeouts = SOON) -> AsyncIterator[Scene]:
    frames = text_stream(upstream, counted=client is not upstream)
    going = asyncio.Event()
    first: list[Step] = [
        Send(sse_head() + chunk(b"".join(frames[:3]))),
        Wait(going),
        Send(b"".join(chunk(frame) for frame in frames[3:]) + LAST_CHUNK),
    ]
    async with (
        asyncio.timeout(30),
        ScriptedServer(first, stream(frames)) as server,
        gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        try:
            yield Scene(client, entrance, going, reader, writer)
        finally:
            writer.close()


@pytest.fixture
def new_requests() -> Callable[[], int]:
    """Counts aiohttp's requests and handlers that have come to be in this test and are alive.

    What was there before is set aside: to look through all that a run of many tests has left takes seconds.
    """
    gc.collect()
    gc.freeze()

    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, web.Request | web.RequestHandler) for thing in gc.get_objects())

    return alive


@DIRECTIONS
async def test_it_is_taken_in_time_keeps_nothing_of_aiohttps_and_the_connection_goes_on(
    client: Dialect, upstream: Dialect, new_requests: Callable[[], int]
) -> None:
    async with scene(client, upstream) as played:
        await played.begin(asked(client))
        assert new_requests() > 0
        await played.taken()
        await until(lambda: new_requests() == 0)
        assert not played.lines.server.connections
        await played.end()
        for _ in range(2):
            played.writer.write(asked(client))
            await played.replied()
        assert len(played.lines.server.connections) == 1
        assert not played.lines.hijacked


async def test_heartbeats_reach_the_client_of_a_taken_stream() -> None:
    async with scene(MESSAGES, CHAT, Timeouts(write=0.25, heartbeat=0.3)) as played:
        await played.begin(asked(MESSAGES))
        await played.taken()
        played.rest += await played.reader.readuntil(b'event: ping\ndata: {"type":"ping"}\n\n\r\n')
        await played.end()


@DIRECTIONS
@pytest.mark.parametrize("behind", ["same", "half", "chunked"])
async def test_what_aiohttp_has_read_behind_the_request_keeps_the_stream_with_it(
    client: Dialect, upstream: Dialect, behind: str
) -> None:
    """Its parser would take a further request, or half of one, with it. The end of a chunked body is not known."""
    async with scene(client, upstream) as played:
        more = asked(client)
        if behind == "chunked":
            body = dump(request(client, stream=True))
            await played.begin(asked(client, encoded=b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)))
        else:
            await played.begin(asked(client) + (more if behind == "same" else more[:40]))
        watch = next(iter(played.gate.gateway.services.open_requests))
        for _ in range(3):
            watch.on_tick(asyncio.get_running_loop().time())
        assert not played.lines.hijacked
        await played.end()
        if behind != "same":
            played.writer.write(more[40:] if behind == "half" else more)
        await played.replied()


@DIRECTIONS
async def test_a_further_request_is_held_until_the_taken_stream_is_over(client: Dialect, upstream: Dialect) -> None:
    async with scene(client, upstream) as played:
        await played.begin(asked(client))
        await played.taken()
        more = asked(client)
        played.writer.write(more[:40])
        await asyncio.sleep(0.01)
        played.writer.write(more[40:])
        await asyncio.sleep(0.01)
        assert played.lines.hijacked
        await played.end()
        await played.replied()


async def test_no_more_is_held_than_so_much() -> None:
    """A client that goes on sending is not read; all of it is served in the end."""
    async with scene(CHAT, MESSAGES) as played:
        await played.begin(asked(CHAT))
        await played.taken()
        (line,) = played.lines.hijacked
        transport = line._transport
        assert transport is not None
        more = asked(CHAT, head=f"x-long: {'a' * 7000}\r\n")
        count = 3 * HELD_MAX // len(more)
        played.writer.write(more * count)
        await until(lambda: not transport.is_reading())
        assert HELD_MAX < len(line._held) < 3 * HELD_MAX
        await played.end()
        for _ in range(count):
            await played.replied()


async def test_a_client_that_hangs_up_on_a_taken_stream_cuts_the_upstream_and_is_accounted_for() -> None:
    async with scene(MESSAGES, CHAT) as played:
        await played.begin(asked(MESSAGES))
        await played.taken()
        played.writer.close()
        await until(lambda: not played.lines.hijacked)
        assert not played.gate.gateway.services.open_requests
        assert not played.lines.server.connections
        text = (await (await played.gate.session.get(played.gate.url + "/metrics")).text()).splitlines()
        (counted,) = [line for line in text if line.startswith("dragoman_requests_total{") and "abandoned" in line]
        assert counted.endswith(" 1")


async def test_who_writes_to_a_client_that_hung_up_on_a_taken_stream_learns_of_it() -> None:
    async with scene(MESSAGES, CHAT) as played:
        await played.begin(asked(MESSAGES))
        await played.taken()
        (line,) = played.lines.hijacked
        audience = line._hijacker
        assert isinstance(audience, DownstreamResponse)
        line.abort()
        with pytest.raises(ConnectionResetError):
            await audience.write(b"more")
        with pytest.raises(ConnectionResetError):
            await audience.end(b"")


async def test_a_client_that_asked_for_it_has_its_connection_closed_behind_a_taken_stream() -> None:
    async with scene(MESSAGES, CHAT) as played:
        await played.begin(asked(MESSAGES, head="connection: close\r\n"))
        await played.taken()
        await played.end()
        assert await played.reader.read() == b""


async def test_a_gateway_that_stops_ends_taken_streams_in_band_and_closes() -> None:
    async with scene(MESSAGES, CHAT) as played:
        await played.begin(asked(MESSAGES))
        await played.taken()
        lines = played.lines
        await asyncio.gather(played.gate.gateway.stop(0.0), played.gate.runner.cleanup())
        noted = await played.reader.read()
        assert b'"overloaded_error"' in noted
        assert noted.endswith(b"\r\n0\r\n\r\n")
        assert not lines.hijacked


@pytest.mark.turns
async def test_a_client_that_does_not_read_is_dropped_when_the_server_is_gone() -> None:
    """Nothing is left running, and nothing is waited for in vain."""
    frames = text_stream(CHAT)
    flowing = asyncio.Event()
    flood = Send(chunk(frames[1]) * 200)
    script: list[Step] = [Send(sse_head() + chunk(b"".join(frames[:3]))), Wait(flowing), *[flood] * 400, Stall()]
    async with asyncio.timeout(30), ScriptedServer(script) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(tool_stall=0.25))
        made = Gateway(config, lines=True)
        async with served(make_app(config, gateway=made, drain=0.0)) as (url, runner):
            assert isinstance(runner, HijackRunner)
            lines = runner.connections
            assert lines is not None
            _reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=1024)
            writer.write(asked(MESSAGES))
            await until(lambda: lines.hijacked)
            flowing.set()
            await until(lambda: any(line.writing_paused for line in lines.hijacked))
            await runner.cleanup()
            assert not lines.hijacked
            assert not made.services.open_requests
            writer.close()


@pytest.mark.turns
@pytest.mark.parametrize("taken", [True, False])
async def test_a_client_that_does_not_read_is_reset_so_that_the_kernel_keeps_nothing_for_it(taken: bool) -> None:
    """After a mere close the kernel keeps what is unsent, megabytes, as long as the client stays connected."""
    frames = text_stream(CHAT)
    flowing = asyncio.Event()
    flood = Send(chunk(frames[1] * 400))
    script: list[Step] = [Send(sse_head() + chunk(b"".join(frames[:3]))), Wait(flowing), *[flood] * 400, Stall()]
    async with asyncio.timeout(30), ScriptedServer(script) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(write=0.25))
        made = Gateway(config, lines=True)
        async with served(make_app(config, gateway=made, drain=0.0)) as (url, runner):
            assert isinstance(runner, HijackRunner)
            lines = runner.connections
            assert lines is not None
            body = dump(request(MESSAGES, stream=True))
            chunked = asked(MESSAGES, encoded=b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            client = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
            try:
                client.sendall(asked(MESSAGES) if taken else chunked)
                await until(lambda: lines.hijacked if taken else made.services.open_requests)
                flowing.set()
                await until(lambda: not made.services.open_requests)
                events = select.poll()
                events.register(client, select.POLLIN)
                await until(lambda: events.poll(0)[0][1] & select.POLLERR)
            finally:
                client.close()


async def test_a_worker_that_leaves_waits_for_taken_streams_and_their_clients_may_come_again() -> None:
    now = 0.0
    frames = text_stream(CHAT)
    going = asyncio.Event()
    script: list[Step] = [
        Send(sse_head() + chunk(b"".join(frames[:3]))),
        Wait(going),
        Send(b"".join(chunk(frame) for frame in frames[3:]) + LAST_CHUNK),
    ]
    async with asyncio.timeout(30), ScriptedServer(script, stream(frames)) as server:
        config = config_for(server.url, CHAT, timeouts=SOON)
        app = make_app(config, gateway=Gateway(config, lines=True))
        retirement = ConnectionDrain(app, linger=20.0, clock=lambda: now)
        async with served(app) as (url, runner):
            assert isinstance(runner, HijackRunner)
            lines = runner.connections
            assert lines is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(asked(MESSAGES))
            await reader.readuntil(b"\n\n\r\n")
            await until(lambda: lines.hijacked)
            retirement.begin(lines)
            now = 100.0
            assert not await retirement.finish(lines, 0.05)
            going.set()
            await reader.readuntil(b"\r\n0\r\n\r\n")
            await until(lambda: not lines.hijacked)
            retirement.close_idle(lines)
            now = 119.0
            retirement.close_idle(lines)
            writer.write(asked(MESSAGES))
            assert b"connection: close" in (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readuntil(b"\r\n0\r\n\r\n")
            assert await retirement.finish(lines, 5)
            writer.close()
