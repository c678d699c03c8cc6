"""Waiting within an exchange while no upstream works on it: in a pause before a retry, or in a provider's queue."""

from __future__ import annotations

import asyncio

from dragoman.aio import StreamTimers


def set_once(future: asyncio.Future[bool], value: bool) -> None:
    """Set the result of a future that has none yet."""
    if not future.done():
        future.set_result(value)


async def wait_with_timers(timers: StreamTimers, seconds: float, future: asyncio.Future[bool]) -> bool:
    """Wait for a future for up to `seconds`, with heartbeats for the client. Return its result, or False after that.

    Raises the error by which the timers end the request: the client has disconnected, or the gateway stops.
    """

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    timers.restart(seconds)
    timers.attach(fail)
    timer = asyncio.get_running_loop().call_later(seconds, set_once, future, False)
    try:
        return await future
    finally:
        timer.cancel()
        timers.upstream_done()
