"""The client's side of a stream over WebSocket: each event is one text message, without SSE's lines.

It takes the place of `DownstreamResponse`. The messages are written by aiohttp, which waits for a client that does not
read once 64 KiB are unsent; the exchange's timers limit that time, and pause the upstream meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Never

from aiohttp import web

from dragoman.aio.downstream.hijack import reset
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.trampoline import InlineTask
from dragoman.limits import Limits
from dragoman.stages.base import Stage
from dragoman.wire.sse import Parser

_UNLIMITED = Limits(sse_line=sys.maxsize, sse_frame=sys.maxsize)
"""The limits of the parser here: the stream was parsed or written within the configured ones before."""
_DONE = b"[DONE]"


class WebSocketStream:
    """Sends one stream as text messages.

    Args:
        socket: The WebSocket of the client's `request`, whose connection `abort` closes.
        timers: The timers of the exchange.
        tail: What is written in place of the closing brace of each event, which is a JSON object.
        on_event: Called with the SSE event name and the data of each event, before it is sent.
    """

    __slots__ = ("_on_event", "_parser", "_ping", "_request", "_socket", "_tail", "_timers", "inline_task", "opened")

    def __init__(
        self,
        socket: web.WebSocketResponse,
        request: web.BaseRequest,
        timers: StreamTimers,
        tail: bytes,
        on_event: Callable[[str, bytes], None],
    ) -> None:
        self._socket = socket
        self._request = request
        self._timers = timers
        self._tail = tail
        self._on_event = on_event
        self._parser = Parser(_UNLIMITED)
        self._ping: asyncio.Task[None] | None = None
        self.opened = False
        self.inline_task: InlineTask[None] | None = None

    direct = False
    response = None

    async def open(self) -> bool:
        """Attach the timers: there are no headers to send. Returns `direct`."""
        self.opened = True
        self._timers.attach_sink(self)
        return False

    def flush(self) -> None:
        """Return at once: everything is sent as it comes."""

    async def send_body(self, batches: AsyncGenerator[bytes, None], last_stage: Stage[Never, object]) -> None:
        """Send all events. Raises ConnectionError if the client disconnects, and the errors of `batches`."""
        timers = self._timers
        async for data in batches:
            timers.writing()
            await self.write(data)
            timers.written()

    async def write(self, data: bytes) -> None:
        """Send the events that `data` completes. Raises ConnectionError if the client has disconnected."""
        tail, send = self._tail, self._socket.send_frame
        for frame in self._parser.parse(data):
            event = frame.data
            if event is None or event == _DONE:
                continue
            self._on_event(frame.event, event)
            if not event.isascii():
                event = _valid(event)
            if tail != b"}":
                event = event.rstrip()
                event = event[:-1] + tail if event.endswith(b"}") else event
            await send(event, web.WSMsgType.TEXT)

    async def end(self, last: bytes) -> None:
        """Send the events that `last` completes. The connection stays open."""
        await self.write(last)

    def send_heartbeat(self) -> None:
        """Send a ping, or the event for clients that count events only, unless the last one is still unsent."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.get_running_loop().create_task(self._send_ping())

    async def _send_ping(self) -> None:
        with suppress(ConnectionError, RuntimeError):  # the client has disconnected; the next write raises
            heartbeat = self._timers.heartbeat
            if heartbeat is not None and not (data := heartbeat()).startswith(b":"):
                await self.write(data)
            else:
                await self._socket.ping()

    def detach(self) -> None:
        """Return at once: a WebSocket stays with aiohttp."""

    def abort(self) -> None:
        """Close the connection of a client that does not read, at once."""
        transport = self._request.transport
        if transport is not None:
            reset(transport)

    def close(self) -> None:
        """Stop a ping that is being sent."""
        if self._ping is not None:
            self._ping.cancel()


def _valid(text: bytes) -> bytes:
    """Return `text` as valid UTF-8: a client ends the connection at a message that is not (RFC 6455 §8.1)."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text
