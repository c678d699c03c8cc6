"""A streamed reply that begins before its upstream has answered (T-72).

A model that thinks for minutes before its first event leaves its client's connection silent, and balancers and clients
cut silent ones. After `timeouts.early_reply` seconds the reply's headers go out, and heartbeats behind them. That costs
what comes with an answer: the upstream's status and headers. An error is told in the stream then, after which few
clients try again by themselves; so it is off unless asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.aio.downstream.response import DownstreamResponse


class Early:
    """Begins the reply to whom `made` gives, unless it is asked for `client` within so many seconds."""

    __slots__ = ("_made", "_opening", "_timer")

    def __init__(self, made: Callable[[], DownstreamResponse], seconds: float) -> None:
        self._made = made
        self._opening: asyncio.Task[DownstreamResponse] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._opening = asyncio.get_running_loop().create_task(self._opened())
        self._opening.add_done_callback(_seen)

    async def _opened(self) -> DownstreamResponse:
        client = self._made()
        await client.open()
        client.flush()
        client.send_heartbeat()
        return client

    async def client(self) -> DownstreamResponse | None:
        """Who has the reply's beginning already; if nobody, it now begins as any other does.

        Raises ConnectionError if the client is gone.
        """
        self._timer.cancel()
        return await self._opening if self._opening is not None else None

    def stop(self) -> None:
        """Nothing more begins."""
        self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()


def _seen(task: asyncio.Task[DownstreamResponse]) -> None:
    if not task.cancelled():
        task.exception()  # Whoever asks for the client gets it; a client that left is asked for by nobody.
