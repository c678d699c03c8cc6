"""The scripted server and the manual clock do what fault tests rely on."""

from __future__ import annotations

import asyncio

import pytest

from support.manual_clock import ManualClock
from support.sockets import (
    LAST_CHUNK,
    Abort,
    Close,
    Drip,
    HalfClose,
    Pause,
    ScriptedServer,
    Send,
    Stall,
    answer,
    chunk,
    head,
    sse_head,
    stream,
)
from support.strategies import split_at

REQUEST = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def ask(server: ScriptedServer, request: bytes = REQUEST) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    return reader, writer


async def test_exact_bytes_and_the_recorded_request() -> None:
    async with ScriptedServer([*answer(429, b"{}", headers=[("retry-after", "7")]), Close()]) as server:
        reader, writer = await ask(server)
        assert await reader.read() == (
            b"HTTP/1.1 429 X\r\ncontent-type: application/json\r\ncontent-length: 2\r\nretry-after: 7\r\n\r\n{}"
        )
        writer.close()
        (request,) = server.requests
        assert (request.target, request.body, request.headers["host"]) == ("/v1/messages?beta=true", b"{}", "x")


async def test_keep_alive_takes_the_next_script_and_reads_chunked_bodies() -> None:
    async with ScriptedServer([Send(b"1")], [Send(b"2"), Close()]) as server:
        reader, writer = await ask(server)
        assert await reader.readexactly(1) == b"1"
        body = b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(b"ab") + chunk(b"c") + LAST_CHUNK
        for piece in split_at(body, range(0, len(body), 3)):
            writer.write(piece)
            await asyncio.sleep(0)
        assert await reader.read() == b"2"
        writer.close()
        assert [request.body for request in server.requests] == [b"{}", b"abc"]
        assert [request.connection for request in server.requests] == [0, 0]


async def test_abort_is_a_reset() -> None:
    async with ScriptedServer([Send(sse_head()), Pause(0.01), Abort()]) as server:
        reader, writer = await ask(server)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_half_close_goes_on_reading() -> None:
    async with ScriptedServer([Send(head()), HalfClose(), Stall()]) as server:
        reader, writer = await ask(server)
        assert await reader.read() == b"HTTP/1.1 200 X\r\n\r\n"
        await asyncio.sleep(0.01)
        assert server.hangups == 0
        writer.close()
        async with asyncio.timeout(30):
            await server.hung_up.wait()


async def test_drip_and_stream_framing() -> None:
    script = [*stream([b"data: 1\n\n", b"data: 2\n\n"]), Drip(b"xyz"), Close()]
    async with ScriptedServer(script) as server:
        reader, writer = await ask(server)
        got = await reader.read()
        assert got == sse_head() + chunk(b"data: 1\n\n") + chunk(b"data: 2\n\n") + LAST_CHUNK + b"xyz"
        writer.close()


@pytest.mark.parametrize("script", [[Stall()], [Pause(60)], [Drip(b"x" * 100_000, 1, 0.001)]])
async def test_a_client_that_leaves_is_noticed_while_silent(script: list[Stall | Pause | Drip]) -> None:
    async with ScriptedServer(script) as server:
        _, writer = await ask(server)
        await server.arrived.wait()
        writer.transport.abort()
        async with asyncio.timeout(30):
            await server.hung_up.wait()
        assert server.hangups == 1


async def test_a_client_that_does_not_read_is_noticed() -> None:
    async with ScriptedServer([Send(b"x" * 1_000_000) for _ in range(50)]) as server:
        _, writer = await ask(server)
        async with asyncio.timeout(30):
            await server.stopped_reading.wait()
        writer.transport.abort()


async def test_the_clock_runs_timers_in_order_at_their_time() -> None:
    clock = ManualClock(0)
    ran: list[tuple[str, float]] = []
    clock.call_later(2, lambda: ran.append(("b", clock())))
    clock.call_later(1, lambda: ran.append(("a", clock())))
    cancelled = clock.call_later(1, lambda: ran.append(("never", clock())))
    cancelled.cancel()
    assert clock.pending == 2
    clock.advance(0.5)
    assert ran == []
    clock.advance(2)
    assert ran == [("a", 1.0), ("b", 2.0)]
    assert (clock(), clock.pending) == (2.5, 0)


async def test_the_clock_wakes_sleepers() -> None:
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(10))
    await clock.pass_time(9.9)
    assert not task.done()
    await clock.pass_time(0.2, step=0.1)
    assert task.done()
    task = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert clock.pending == 0
