"""The client's side of a stream over WebSocket: each event is one text message, without SSE's lines.

It takes the place of `DownstreamResponse`. The messages are written by aiohttp, which waits for a client that does not
read once 64 KiB are unsent; the exchange's timers limit that time, and pause the upstream meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from dragoman.aio.downstream.frame_sink import FrameSink
from dragoman.aio.downstream.hijack import reset
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.unsent import unsent
from dragoman.wire.sse_parser import decode_frames

_DONE = b"[DONE]"


class WebSocketStream(FrameSink):
    """Sends one stream as text messages.

    Args:
        socket: The WebSocket of the client's `request`, whose connection `abort` closes.
        timers: The timers of the exchange.
        tail: What is written in place of the closing brace of each event, which is a JSON object.
        on_event: Called with the SSE event name and the data of each event, before it is sent.
    """

    __slots__ = ("_on_event", "_ping", "_request", "_socket", "_tail")

    def __init__(
        self,
        socket: web.WebSocketResponse,
        request: web.BaseRequest,
        timers: StreamTimers,
        tail: bytes,
        on_event: Callable[[str, bytes], None],
    ) -> None:
        super().__init__(timers)
        self._socket = socket
        self._request = request
        self._tail = tail
        self._on_event = on_event
        self._ping: asyncio.Task[None] | None = None

    async def send(self, event: str, data: bytes) -> None:
        """Send one event as a message."""
        if data == _DONE:
            return
        self._on_event(event, data)
        if not data.isascii():
            data = _valid(data)
        if self._tail != b"}":
            data = data.rstrip()
            data = data[:-1] + self._tail if data.endswith(b"}") else data
        await self._socket.send_frame(data, web.WSMsgType.TEXT)

    def send_heartbeat(self) -> None:
        """Send a ping, or the event for clients that count events only, unless the last one is still unsent."""
        if self._ping is None or self._ping.done():
            self._ping = asyncio.get_running_loop().create_task(self._send_ping())

    async def _send_ping(self) -> None:
        heartbeat = self._timers.heartbeat
        frames = [*decode_frames(heartbeat())] if heartbeat is not None else []
        with suppress(ConnectionError, RuntimeError):  # the client has disconnected; the next write raises
            if any(frame.data is not None for frame in frames):
                await self.write(frames)
            else:
                await self._socket.ping()

    def abort(self) -> None:
        """Close the connection of a client that does not read, at once."""
        transport = self._request.transport
        if transport is not None:
            reset(transport)

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        return unsent(self._request.transport)

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
