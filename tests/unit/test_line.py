"""A line by itself: who hears what of a reply that is taken from its handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from dragoman.aio.line import Line, LineRunner
from support.waiting import turns, until

ASKED = b"GET /taken HTTP/1.1\r\nhost: x\r\n\r\n"


class House:
    """A server with one handler, whose work waits for `going` and is taken once it waits."""

    def __init__(self) -> None:
        self.going: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.log: list[str] = []
        self.line: Line | None = None
        self.request: web.Request | None = None
        self.port = 0

    async def handler(self, request: web.Request) -> web.StreamResponse:
        line = self.line = Line.of(request)
        self.request = request
        assert line is not None
        line.heard(b"")
        line._body_tail = ASKED[-16:]  # a request without a body ends as its head does
        try:
            response: web.StreamResponse = await line.attend(self.work())
        except asyncio.CancelledError:
            self.log.append("handler cancelled")
            raise
        self.log.append("handler done")
        return response

    async def work(self) -> web.StreamResponse:
        try:
            await asyncio.wait({self.going})
        except asyncio.CancelledError:
            if not self.going.done():
                self.log.append("work cancelled")
                raise
        await asyncio.sleep(0)
        self.log.append("work done")
        return web.Response(text="all")

    def lost(self) -> None:
        self.log.append("lost")


@asynccontextmanager
async def a_house() -> AsyncIterator[tuple[House, LineRunner, asyncio.StreamReader, asyncio.StreamWriter]]:
    house = House()
    app = web.Application()
    app.router.add_get("/taken", house.handler)
    runner = LineRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(ASKED)
        await until(lambda: house.line)
        yield house, runner, reader, writer
        writer.close()
    finally:
        await runner.cleanup()


async def test_a_reply_that_is_not_taken_is_as_if_it_were_awaited() -> None:
    async with a_house() as (house, _, reader, _):
        house.going.set_result(None)
        assert b"\r\n\r\nall" in await reader.readuntil(b"all")
        assert house.log == ["work done", "handler done"]
        assert house.line is not None
        assert house.line.reply is None


async def test_a_client_that_hangs_up_cancels_work_that_is_not_taken() -> None:
    async with a_house() as (house, _, _, writer):
        writer.transport.abort()
        await until(lambda: house.log)
        assert house.log == ["work cancelled", "handler cancelled"]


async def test_taking_it_ends_the_handler_and_not_the_work() -> None:
    async with a_house() as (house, runner, _, _):
        assert house.line is not None
        assert house.request is not None
        assert runner.lines is not None
        resume = house.line.take(house.request, house, True)
        assert resume is not None
        await until(lambda: house.log)
        assert house.log == ["handler cancelled"]
        assert house.line.take(house.request, house, True) is None
        assert runner.lines.connections == [house.line]
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.lines or not runner.lines.taken)
        assert house.log == ["handler cancelled", "work done"]
        assert len(runner.lines.server.connections) == 1


async def test_who_carries_a_taken_reply_hears_at_once_that_the_client_hung_up() -> None:
    async with a_house() as (house, runner, _, writer):
        assert house.line is not None
        assert house.request is not None
        assert runner.lines is not None
        resume = house.line.take(house.request, house, True)
        assert resume is not None
        writer.transport.abort()
        await until(lambda: "lost" in house.log)
        assert house.log == ["handler cancelled", "lost"]
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.lines or not runner.lines.taken)
        assert not runner.lines.connections


async def test_nothing_is_taken_while_the_server_closes() -> None:
    async with a_house() as (house, runner, _, _):
        assert house.line is not None
        assert house.request is not None
        assert runner.lines is not None
        runner.lines.closing = True
        assert house.line.take(house.request, house, True) is None
        house.going.set_result(None)


async def test_whoever_drains_hears_that_the_client_hung_up() -> None:
    async with a_house() as (house, _, _, writer):
        line = house.line
        assert line is not None
        assert house.request is not None
        resume = line.take(house.request, house, True)
        assert resume is not None
        line.pause_writing()
        draining = asyncio.create_task(line.drain())
        await turns()
        assert not draining.done()
        writer.transport.abort()
        with pytest.raises(ConnectionResetError):
            await draining
        assert "lost" not in house.log
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: "work done" in house.log)
