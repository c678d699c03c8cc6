"""The response to a client that reads a log, while a stream is written to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

from aiohttp import web

from dragoman.aio.downstream.event_log import LogTail
from dragoman.aio.downstream.response import DownstreamResponse
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.trampoline import InlineTask
from dragoman.stages.base import StreamDriver


class _NeverDone:
    """In place of a driver: a log has no last batch, but an end after it."""

    done = False


_NEVER_DONE = cast("StreamDriver", _NeverDone())


async def send_log(
    request: web.Request,
    response: web.StreamResponse,
    events: AsyncGenerator[bytes, None],
    tail: LogTail,
    timeouts: Timeouts,
    ping: bytes,
) -> None:
    """Send the events of a log that `events` yields, which waits by `tail`, and heartbeats between them.

    Raises ConnectionError if the client disconnects or does not read, and the errors of `events`.
    """
    with StreamTimers(timeouts) as timers:
        downstream = DownstreamResponse(request, response, timers, ping)
        try:
            direct = await downstream.open()
            body = downstream.send_body(events, _NEVER_DONE)
            if direct:
                tail.write_now = downstream.write_now
                task = InlineTask(body, tail.on_arrival)
                task.start()
                downstream.flush()
                await task
            else:
                downstream.flush()
                await body
        finally:
            await events.aclose()
            downstream.close()
