"""A streamed response that is started before the upstream's response has arrived (T-72).

A model that reasons for minutes before its first event leaves the client's connection idle, and balancers and clients
close idle connections. With `timeouts.early_reply`, the response's headers are sent after so many seconds, followed by
heartbeats. The upstream's status and headers cannot be passed on then: an error is sent within the stream, and few
clients retry after that. It is therefore off by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.aio import Downstream


class EarlyResponse:
    """Starts the response that `create` returns after `seconds`, unless `take` or `stop` was called before."""

    __slots__ = ("_create", "_opening", "_timer")

    def __init__(self, create: Callable[[], Downstream], seconds: float) -> None:
        self._create = create
        self._opening: asyncio.Task[Downstream] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start)

    def _start(self) -> None:
        self._opening = asyncio.get_running_loop().create_task(self._open())
        self._opening.add_done_callback(_retrieve_exception)

    async def _open(self) -> Downstream:
        client = self._create()
        await client.open()
        client.flush()
        client.send_heartbeat()
        return client

    async def take(self) -> Downstream | None:
        """Return the response that was started, or None; then the timer is stopped and none will be started.

        Raises ConnectionError if the client has disconnected.
        """
        self._timer.cancel()
        return await self._opening if self._opening is not None else None

    def stop(self) -> None:
        """Stop the timer, or the start if it is under way."""
        self._timer.cancel()
        if self._opening is not None:
            self._opening.cancel()


def _retrieve_exception(task: asyncio.Task[Downstream]) -> None:
    if not task.cancelled():
        task.exception()  # raised in `take`; if that is not called, asyncio must not log it
