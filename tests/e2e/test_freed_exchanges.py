"""An exchange that has ended is freed at once, however it ends: nothing of it waits for the garbage collector.

A full collection visits every object of every open stream, and holds the event loop meanwhile. A client that leaves
cycles behind causes one.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator

import pytest

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.http11.response import Http11Response
from dragoman.dialects import Dialect
from support.gateways import ALL, config_for, gate
from support.samples import PATHS, dump, reply, request, text_stream
from support.sockets import Abort, ScriptedServer, Send, Stall, Step, answer, chunk, head, sse_head, stream
from support.waiting import until

DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
SOON = Timeouts(write=0.25)
"""A stream has its connection for itself after 31 ms."""
NEVER = Timeouts()


@pytest.fixture
def exchanges() -> Iterator[Callable[[], int]]:
    """Counts the exchanges that have begun in a test and are not freed, without the garbage collector."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield lambda: sum(isinstance(each, StreamTimers | Http11Response) for each in gc.get_objects())
    gc.enable()


def half(upstream: Dialect) -> bytes:
    return sse_head() + chunk(b"".join(text_stream(upstream)[:3]))


def upstream_of(case: str, upstream: Dialect) -> list[Step]:
    if case == "whole":
        return answer(200, dump(reply(upstream)))
    if case == "complete":
        return stream(text_stream(upstream))
    if case == "refused":
        return answer(400, b'{"error": {"message": "no"}}')
    if case == "silent":
        return [Stall()]
    if case == "cut head":
        return [Send(head(200)[:10]), Abort()]
    return [Send(half(upstream)), Abort() if case == "cut" else Stall()]


@DIRECTIONS
@pytest.mark.parametrize(
    "case", ["whole", "complete", "refused", "silent", "cut head", "cut", "idle", "leaves", "leaves when hijacked"]
)
async def test_it_is_freed_without_a_collection(
    client: Dialect, upstream: Dialect, case: str, exchanges: Callable[[], int]
) -> None:
    timeouts = SOON if case == "leaves when hijacked" else Timeouts(idle=0.2) if case == "idle" else NEVER
    async with (
        asyncio.timeout(60),
        ScriptedServer(upstream_of(case, upstream)) as server,
        gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        body = dump(request(client, stream=case != "whole"))
        line = f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\n"
        if case not in ("leaves", "leaves when hijacked", "silent"):
            line += "connection: close\r\n"
        writer.write(f"{line}content-length: {len(body)}\r\n\r\n".encode() + body)
        if case == "silent":
            await until(lambda: entrance.gateway.open_requests == 1 and exchanges())
        elif case.startswith("leaves"):
            await reader.readuntil(b"\n\n\r\n")
            if case == "leaves when hijacked":
                await until(lambda: entrance.runner.connections.hijacked)  # type: ignore[attr-defined]
        else:
            await reader.read()
        writer.transport.abort()
        await until(lambda: not entrance.gateway.open_requests)
        await until(lambda: not exchanges())
