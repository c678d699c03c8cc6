"""A line by itself: who hears what of a reply that is taken from its handler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from dragoman.aio.downstream.hijack import HELD_MAX, HijackableConnection, HijackRunner
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


class House:
    """A server with one handler, whose work waits for `going` and is taken once it waits."""

    def __init__(self) -> None:
        self.going: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.log: list[str] = []
        self.line: HijackableConnection | None = None
        self.port = 0

    async def handler(self, request: web.Request) -> web.StreamResponse:
        line = self.line = HijackableConnection.of(request)
        assert line is not None
        await request.read()
        try:
            response: web.StreamResponse = await line.run_detachable(self.work())
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
async def a_house(
    *reads: bytes, at_once: bool = True
) -> AsyncIterator[tuple[House, HijackRunner, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client that has asked, by default for `/taken`; `reads` are what the server read of it each time."""
    house = House()
    app = web.Application()
    app.router.add_route("*", "/taken", house.handler)
    runner = HijackRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        await until(lambda: runner.connections and runner.connections.connections)
        assert runner.connections is not None
        (http,) = runner.connections.server.connections
        assert http.transport is not None
        line = http.transport.get_protocol()
        assert isinstance(line, HijackableConnection)
        for data in reads or (ASKED,):
            line.data_received(data)
            if not at_once:
                await turns()
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
        assert house.line.task is None


async def test_a_client_that_hangs_up_cancels_work_that_is_not_taken() -> None:
    async with a_house() as (house, _, _, writer):
        writer.transport.abort()
        await until(lambda: house.log)
        assert house.log == ["work cancelled", "handler cancelled"]


async def test_taking_it_ends_the_handler_and_not_the_work() -> None:
    async with a_house() as (house, runner, _, _):
        assert house.line is not None
        assert runner.connections is not None
        assert repr(house.line) == "<HijackableConnection aiohttp requests=1 held=0>"
        resume = house.line.hijack(house, True)
        assert resume is not None
        assert repr(house.line) == "<HijackableConnection hijacked held=0>"
        await until(lambda: house.log)
        assert house.log == ["handler cancelled"]
        assert house.line.hijack(house, True) is None
        assert runner.connections.connections == [house.line]
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert house.log == ["handler cancelled", "work done"]
        assert len(runner.connections.server.connections) == 1


async def test_who_carries_a_taken_reply_hears_at_once_that_the_client_hung_up() -> None:
    async with a_house() as (house, runner, _, writer):
        assert house.line is not None
        assert runner.connections is not None
        resume = house.line.hijack(house, True)
        assert resume is not None
        writer.transport.abort()
        await until(lambda: "lost" in house.log)
        assert house.log == ["handler cancelled", "lost"]
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert not runner.connections.connections


async def test_nothing_is_taken_while_the_server_closes() -> None:
    async with a_house() as (house, runner, _, _):
        assert house.line is not None
        assert runner.connections is not None
        runner.connections.closing = True
        assert house.line.hijack(house, True) is None
        house.going.set_result(None)


async def test_whoever_drains_hears_that_the_client_hung_up() -> None:
    async with a_house() as (house, _, _, writer):
        line = house.line
        assert line is not None
        resume = line.hijack(house, True)
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


async def test_a_client_that_hung_up_and_does_not_read_is_not_given_back() -> None:
    """What it had sent before is not served, and its connection not kept."""
    async with a_house() as (house, runner, _, writer):
        line = house.line
        assert line is not None
        assert runner.connections is not None
        resume = line.hijack(house, True)
        transport = line._transport
        assert resume is not None
        assert transport is not None
        line.data_received(ASKED)
        transport.write(bytes(1 << 23))
        writer.write_eof()
        await until(transport.is_closing)
        assert line._transport is transport
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not runner.connections or not runner.connections.hijacked)
        assert not runner.connections.connections
        line.abort()


async def test_a_client_whose_requests_wait_is_not_read_when_aiohttp_has_them() -> None:
    """Its queue has an end, and so has what it takes of a connection."""
    async with a_house() as (house, runner, reader, _):
        line = house.line
        assert line is not None
        assert runner.connections is not None
        resume = line.hijack(house, True)
        transport = line._transport
        assert resume is not None
        assert transport is not None
        held = 40 * ASKED.replace(b"\r\n\r\n", b"\r\nx-long: %b\r\n\r\n" % bytes(b"a" * 2000))
        assert len(held) > HELD_MAX
        line.data_received(held)
        assert not transport.is_reading()
        house.going.set_result(None)
        await turns()
        house.going = asyncio.get_running_loop().create_future()
        resume()
        await until(lambda: line.task and not line._server.hijacked)
        assert not transport.is_reading()
        house.going.set_result(None)
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
async def test_a_reply_is_taken_if_its_request_is_all_that_was_read(reads: tuple[bytes, ...], at_once: bool) -> None:
    async with a_house(*reads, at_once=at_once) as (house, _, _, _):
        assert house.line is not None
        resume = house.line.hijack(house, True)
        assert resume is not None
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: "work done" in house.log)


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
async def test_a_reply_is_not_taken_if_anything_was_read_behind_its_request(
    reads: tuple[bytes, ...], replies: int, at_once: bool
) -> None:
    async with a_house(*reads, at_once=at_once) as (house, _, reader, _):
        assert house.line is not None
        assert house.line.hijack(house, True) is None
        house.going.set_result(None)
        for _ in range(replies):
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nall")


async def test_a_reply_is_taken_again_once_pipelined_requests_are_answered() -> None:
    async with a_house(LONG + LONG) as (house, _, reader, _):
        line = house.line
        assert line is not None
        assert line.hijack(house, True) is None
        house.going.set_result(None)
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\nall")
        house.going = asyncio.get_running_loop().create_future()
        line.data_received(LONG)
        await until(lambda: line.task)
        resume = line.hijack(house, True)
        assert resume is not None
        house.going.set_result(None)
        await turns()
        resume()
        await until(lambda: not line._server.hijacked)


async def test_the_application_stops_once_and_while_its_connections_still_answer() -> None:
    """Not at all where it has not started."""
    said: list[str] = []
    app = web.Application()

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def stop(_: web.Application) -> None:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        said.append((await reader.readuntil(b"hello")).decode()[:15])

    app.router.add_get("/", hello)
    app.on_shutdown.append(stop)
    runner = HijackRunner(app, shutdown_timeout=0.1)
    await runner.cleanup()
    assert not said
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
    async with asyncio.timeout(5):
        await runner.cleanup()
    assert said == ["HTTP/1.1 200 OK"]
    assert await reader.read() == b""
    writer.close()
