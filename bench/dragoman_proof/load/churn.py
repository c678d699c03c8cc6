"""Connections that come and go: empty ones, one request each, and ones whose client closes its half."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from dragoman_bench.wire import Script
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.rig import Stage, settled, stage
from dragoman_proof.load.sizes import Size

_SHORT = Script(2, 0, 32, joined=True)
_AT_ONCE = 64
_END = b"0\r\n\r\n"
_TERMINAL = b'"message_stop"'
_WITHIN = 60.0
_KEPT = 512
"""Bytes for each connection by which the gateway may have grown from the first half of them to the second."""

Visit = Callable[[Stage, bytes], Coroutine[Any, Any, bool]]


async def churn(size: Size) -> Outcome:
    """Connections of each kind come and go, in two halves; all are closed, and memory does not grow with them."""
    outcome = Outcome("churn", f"{size.churned:,} connections of each kind, {_AT_ONCE} at once")
    half = size.churned // 2
    async with stage({"noise": "*"}) as running:
        request = running.plan(_SHORT).request()
        for name, visit in KINDS.items():
            idle = running.used()
            good = await _visit(running, visit, request, half)
            await _closed(running, idle.files)
            middle = running.used()
            good += await _visit(running, visit, request, half)
            await _closed(running, idle.files)
            after = running.used()
            grown = (after.bytes - middle.bytes) / half
            outcome.figures[name] = {
                "connections": 2 * half,
                "cpu_us_per_connection": (after.cpu_ns - idle.cpu_ns) / 1e3 / half / 2,
                "grown_bytes_per_connection": grown,
                "waited_for_a_core_s": (after.waited_ns - idle.waited_ns) / 1e9,
            }
            outcome.check(f"{name}: every connection ends as it should", good == 2 * half, f"{good} of {2 * half}")
            left = after.files - idle.files
            outcome.check(f"{name}: no socket is left", left <= _AT_ONCE, f"{left} more files, of kept upstreams")
            if size.timed:
                outcome.check(f"{name}: memory does not grow with them", grown < _KEPT, f"{grown:,.0f} bytes for each")
        # The request of a client that closes its half before the gateway has read it is not booked.
        least, most = 2 * half, sum(2 * half for visit in KINDS.values() if visit in (_one_request, _half_closed))
        rows = await running.booked_all(least)
        once = least <= len(rows) <= most and set(rows.values()) == {1}
        outcome.check("each request is booked once", once, f"{len(rows)} rows of {least} to {most}")
        open_streams = int((await running.stats())["open"])
        outcome.check("no upstream call is left", open_streams == 0, f"{open_streams} open")
    return outcome.ended()


async def _closed(running: Stage, files: int) -> None:
    """Wait until the gateway has closed its connections, but those to upstreams that it keeps."""
    await settled(lambda: running.used().files > files + _AT_ONCE)


async def _visit(running: Stage, visit: Visit, request: bytes, count: int) -> int:
    """Visit `count` times, some at once. Returns how many visits went as they should."""
    waiting, good = iter(range(count)), 0

    async def work() -> None:
        nonlocal good
        for _ in waiting:
            async with asyncio.timeout(_WITHIN):
                went_well = await visit(running, request)
            good += went_well

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
    return good


async def _empty(running: Stage, request: bytes) -> bool:
    """Connect and close."""
    _, writer = await asyncio.open_connection(*running.plan(_SHORT).address)
    writer.close()
    return True


async def _one_request(running: Stage, request: bytes) -> bool:
    """Send a request, read its reply to the end, and close."""
    reader, writer = await asyncio.open_connection(*running.plan(_SHORT).address)
    writer.write(request)
    reply = await reader.readuntil(_END)
    writer.close()
    return reply.startswith(b"HTTP/1.1 200") and _TERMINAL in reply


async def _half_closed(running: Stage, request: bytes) -> bool:
    """Send a request, close the sending half, and read until the gateway closes: RFC 9112 §9.6 lets a server answer."""
    reader, writer = await asyncio.open_connection(*running.plan(_SHORT).address)
    writer.write(request)
    writer.write_eof()
    reply = await reader.read()
    writer.close()
    return reply == b"" or (reply.startswith(b"HTTP/1.1 200") and _TERMINAL in reply)


async def _half_head(running: Stage, request: bytes) -> bool:
    """Send a part of the head, close the sending half, and read until the gateway closes."""
    reader, writer = await asyncio.open_connection(*running.plan(_SHORT).address)
    writer.write(request[:40])
    writer.write_eof()
    try:
        reply = await reader.read()
    except ConnectionResetError:
        return True
    writer.close()
    return b" 200 " not in reply[:20]


async def _reset(running: Stage, request: bytes) -> bool:
    """Connect and reset."""
    _, writer = await asyncio.open_connection(*running.plan(_SHORT).address)
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()
    return True


KINDS: dict[str, Visit] = {
    "connect and close": _empty,
    "connect and reset": _reset,
    "one request": _one_request,
    "half of a head, half closed": _half_head,
    "one request, half closed": _half_closed,
}
