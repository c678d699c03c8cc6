"""The requests that a gateway is answering, by their timers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from aiohttp import web

from dragoman import DragomanError, Failure
from dragoman.aio import StreamTimers, Timeouts


def _disconnected() -> bool:
    return True


class OpenRequests:
    """The timers of all open requests of one gateway."""

    def __init__(self) -> None:
        self._timers: set[StreamTimers] = set()
        self.stopping = False
        """True once the gateway stops: no further requests are admitted."""
        self._idle: asyncio.Event | None = None
        """Set when no request is open, or when that is no longer waited for; made when it is waited for."""

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[StreamTimers]:
        return iter(self._timers)

    def add(self, request: web.Request, timeouts: Timeouts) -> StreamTimers:
        """Return the timers of a client's request, which is open until `remove`."""
        transport = request.transport
        timers = StreamTimers(timeouts, transport.is_closing if transport is not None else _disconnected)
        self._timers.add(timers)
        return timers

    def add_detached(self, timeouts: Timeouts) -> StreamTimers:
        """Return the timers of a request without a client, which is open until `remove`."""
        timers = StreamTimers(timeouts)
        self._timers.add(timers)
        return timers

    def remove(self, timers: StreamTimers) -> None:
        """Stop the timers of a request that has ended."""
        timers.stop()
        self._timers.discard(timers)
        if self._idle is not None and not self._timers:
            self._idle.set()

    def expire(self, failure: Failure) -> None:
        """End all open requests with this failure."""
        for timers in tuple(self._timers):
            timers.expire(DragomanError(replace(failure)))

    def end_wait(self) -> None:
        """End a `wait` now."""
        if self._idle is not None:
            self._idle.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until no request is open, for at most `seconds` or until `end_wait`. Return False if some still are."""
        if self._timers:
            if self._idle is None:
                self._idle = asyncio.Event()
            self._idle.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                pass
        return not self._timers
