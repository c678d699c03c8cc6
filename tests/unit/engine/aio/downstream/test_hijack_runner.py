"""The runner of hijackable connections: the order of its stop."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from dragoman.aio.downstream.hijack_runner import HijackRunner


async def test_the_application_stops_once_and_while_its_connections_still_answer() -> None:
    """A runner that was not set up does not run its shutdown handlers."""
    received: list[str] = []
    app = web.Application()

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def stop(_: web.Application) -> None:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        received.append((await reader.readuntil(b"hello")).decode()[:15])

    app.router.add_get("/", hello)
    app.on_shutdown.append(stop)
    runner = HijackRunner(app, shutdown_timeout=0.1)
    await runner.cleanup()
    assert not received
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
    async with asyncio.timeout(30):
        await runner.cleanup()
    assert received == ["HTTP/1.1 200 OK"]
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    ("sent", "closed"),
    [
        (b"", False),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /", False),
    ],
    ids=["new", "kept", "of a further request"],
)
async def test_only_kept_connections_are_closed_first(sent: bytes, closed: bool) -> None:
    """A client that has just connected may have sent its first request, and would lose it."""

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    rest = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[len(sent.rpartition(b"\n")[2]) :]
    received: list[bytes] = []

    async def stop(_: web.Application) -> None:
        writer.write(b"" if closed else rest)
        received.append(await reader.read(5))

    app = web.Application()
    app.router.add_get("/", hello)
    app.on_shutdown.append(stop)
    runner = HijackRunner(app, shutdown_timeout=0.1, closes_kept=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(sent)
        if sent:
            await reader.readuntil(b"hello")
        await runner.cleanup()
    assert received == ([b""] if closed else [b"HTTP/"])
    writer.close()
