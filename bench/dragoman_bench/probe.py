"""Event-loop lag of a gateway, from outside: the time of a small request on a connection of its own.

A `GET /health` waits until the loop has finished what it is doing. Its own cost, about 0.2 ms, is included. A gateway
that answers with an error is measured too; one that does not answer the first request is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from dragoman_bench.plan import Plan

EVERY_MS = 20
_FIRST_WITHIN = 2.0
_ANSWER_WITHIN = 10.0


class _Answers(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(time.monotonic_ns())

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self.transport = None
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(ConnectionError("closed"))


async def probe(plan: Plan, add: Callable[[int], None]) -> None:
    """Call `add` with nanoseconds for each request, until cancelled; return if the gateway does not answer.

    A request that should have been sent while one was waiting counts with the rest of the wait, so that a long
    pause weighs as much as many short ones.
    """
    request = f"GET /health HTTP/1.1\r\nhost: {plan.address[0]}:{plan.address[1]}\r\n\r\n".encode()
    loop, every = asyncio.get_running_loop(), EVERY_MS * 1_000_000
    connection, within = _Answers(), _FIRST_WITHIN
    try:
        while True:
            with suppress(OSError, TimeoutError):
                if connection.transport is None:
                    _, connection = await loop.create_connection(_Answers, *plan.address)
                waiting = connection.waiting = loop.create_future()
                begun = time.monotonic_ns()
                assert connection.transport is not None
                connection.transport.write(request)
                async with asyncio.timeout(within):
                    lag = await waiting - begun
                within = _ANSWER_WITHIN
                for missed in range(0, lag + 1, every):
                    add(lag - missed)
            if within == _FIRST_WITHIN:
                return
            await asyncio.sleep(EVERY_MS / 1000)
    finally:
        if connection.transport is not None:
            connection.transport.abort()
