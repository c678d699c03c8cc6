"""Connections of a draining worker: the next reply is the last, idle ones stay open for a while, none is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from dragoman.aio.downstream.hijack import HijackServer
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman_server.workers.drain import ConnectionDrain


@dataclass(slots=True)
class House:
    """A server that is going to leave. `slow` lets `GET /slow` go on."""

    retirement: ConnectionDrain
    lines: HijackServer
    url: str
    slow: asyncio.Event
    arrived: asyncio.Event
    now: float = 0.0

    def connections(self) -> int:
        return len(self.lines.connections)


@asynccontextmanager
async def a_house(linger: float = 20.0) -> AsyncIterator[House]:
    slow, arrived = asyncio.Event(), asyncio.Event()

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def streamed(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun ")
        arrived.set()
        await slow.wait()
        await response.write(b"and done")
        return response

    app = web.Application()
    app.router.add_get("/quick", quick)
    app.router.add_get("/slow", streamed)
    retirement = ConnectionDrain(app, linger=linger, clock=lambda: house.now)
    runner = HijackRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert runner.connections is not None
        house = House(retirement, runner.connections, f"http://127.0.0.1:{site.port}", slow, arrived)
        yield house
    finally:
        await runner.cleanup()


async def get(session: aiohttp.ClientSession, house: House, path: str) -> tuple[str, str | None]:
    async with session.get(house.url + path) as response:
        return await response.text(), response.headers.get("connection")


async def gone(house: House) -> None:
    assert await house.retirement.finish(house.lines, 5)
    assert house.connections() == 0


async def test_an_idle_connection_gets_one_more_reply_marked_as_the_last() -> None:
    async with a_house() as house, aiohttp.ClientSession() as session:
        assert await get(session, house, "/quick") == ("quick", None)
        house.retirement.begin(house.lines)
        assert house.connections() == 1
        assert await get(session, house, "/quick") == ("quick", "close")
        await gone(house)


async def test_idle_connections_linger_and_are_closed_then() -> None:
    async with a_house() as house, aiohttp.ClientSession() as session:
        await get(session, house, "/quick")
        house.retirement.begin(house.lines)
        house.now = 19.9
        house.retirement.close_idle(house.lines)
        await asyncio.sleep(0)
        assert house.connections() == 1
        house.now = 20.0
        await gone(house)


async def test_an_open_stream_is_not_idle_and_its_client_may_come_again() -> None:
    """Its headers are sent already, without `connection: close`."""
    async with a_house() as house, aiohttp.ClientSession() as session:
        asked = asyncio.create_task(get(session, house, "/slow"))
        await house.arrived.wait()
        house.retirement.begin(house.lines)
        house.now = 100.0
        assert not await house.retirement.finish(house.lines, 0.01)
        house.slow.set()
        assert await asked == ("begun and done", None)
        house.now = 119.0
        house.retirement.close_idle(house.lines)
        assert await get(session, house, "/quick") == ("quick", "close")
        await gone(house)


async def test_nothing_changes_before_it_begins() -> None:
    async with a_house(linger=0) as house, aiohttp.ClientSession() as session:
        for _ in range(3):
            assert await get(session, house, "/quick") == ("quick", None)
        assert house.connections() == 1
        assert house.lines.server.requests_count == 3
