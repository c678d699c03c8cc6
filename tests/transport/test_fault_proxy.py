"""The fault proxy injects the configured faults, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.fault_proxy import Ending, Fault, FaultProxy
from support.waiting import turns, until
from support.wire_server import Gone, Peer, WireServer

HELLO = b"hello, world"


async def echo(peer: Peer) -> None:
    """Send what comes back until the client ends its side."""
    taken = 0
    while True:
        try:
            await peer.exactly(1)
        except Gone:
            return
        taken = len(peer.received) - 1
        await peer.send(bytes(peer.received[taken:]))


@asynccontextmanager
async def dialled(proxy: FaultProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection through the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await turns()


async def greet(peer: Peer) -> None:
    """Send hello, and wait for the end."""
    await peer.send(HELLO)
    await peer.gone.wait()


async def test_it_passes_bytes_and_ends_both_ways() -> None:
    async with WireServer(echo) as server, FaultProxy(server.port) as proxy, dialled(proxy) as (reader, writer):
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.write_eof()
        assert await reader.read() == b""
        assert proxy.links[0].passed == {"client": 1, "server": 1}


async def test_it_drips() -> None:
    async with (
        WireServer(greet) as server,
        FaultProxy(server.port, to_client=Fault(drip=5)) as proxy,
        dialled(proxy) as (reader, _),
    ):
        pieces = [await reader.read(100) for _ in range(3)]
        assert pieces == [b"hello", b", wor", b"ld"]


async def test_it_holds_and_goes_on() -> None:
    fault = Fault(hold=5)
    async with (
        WireServer(greet) as server,
        FaultProxy(server.port, to_client=fault) as proxy,
        dialled(proxy) as (reader, _),
    ):
        assert await reader.read(100) == b"hello"
        await fault.held.wait()
        more = asyncio.create_task(reader.read(100))
        await turns(20)
        assert not more.done()
        fault.go.set()
        assert await more == b", world"


@pytest.mark.parametrize("after", [0, 5, len(HELLO)])
async def test_it_cuts(after: int) -> None:
    async with (
        WireServer(greet) as server,
        FaultProxy(server.port, to_client=Fault(cut=after)) as proxy,
        dialled(proxy) as (reader, _),
    ):
        assert await reader.read() == HELLO[:after]
        await server.peers[0].gone.wait()


async def test_it_resets() -> None:
    async with (
        WireServer(greet) as server,
        FaultProxy(server.port, to_client=Fault(reset=5)) as proxy,
        dialled(proxy) as (reader, _),
    ):
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(6)
        await server.peers[0].lost.wait()


async def test_it_half_closes() -> None:
    """The client sees the end, and can still send."""
    async with (
        WireServer(greet) as server,
        FaultProxy(server.port, to_client=Fault(half_close=5)) as proxy,
        dialled(proxy) as (reader, writer),
    ):
        assert await reader.read() == b"hello"
        writer.write(b"still here")
        await until(lambda: server.peers[0].received == b"still here")
        assert not server.peers[0].gone.is_set()


@pytest.mark.parametrize("how", [Ending.CUT, Ending.RESET])
async def test_it_ends_connections_on_command(how: Ending) -> None:
    async with WireServer(greet) as server, FaultProxy(server.port) as proxy, dialled(proxy) as (reader, _):
        await reader.readexactly(len(HELLO))
        proxy.end(how)
        if how is Ending.RESET:
            with pytest.raises(ConnectionResetError):
                await reader.read()
        else:
            assert await reader.read() == b""
        await server.peers[0].gone.wait()


async def test_it_accepts_late() -> None:
    async with WireServer(greet) as server, FaultProxy(server.port) as proxy:
        proxy.accepting.clear()
        async with dialled(proxy) as (reader, _):
            await until(lambda: proxy.connections)
            assert not server.peers
            proxy.accepting.set()
            assert await reader.readexactly(len(HELLO)) == HELLO


async def test_it_refuses_and_listens_again() -> None:
    async with WireServer(greet) as server, FaultProxy(server.port) as proxy:
        port = proxy.port
        await proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await proxy.listen()
        assert proxy.port == port
        async with dialled(proxy) as (reader, _):
            assert await reader.readexactly(len(HELLO)) == HELLO
