"""Closes a connection whose request, or whose WebSocket message, is refused before all of it was received.

Closing a socket with unread bytes resets the connection, and the reset destroys what the client has not read: the
response, or the close frame. So that is written, the sending side is closed, and further bytes are dropped, for a short
time and not without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dragoman.aio.timer_wheel import TimerWheel, timer_wheel

LINGER = 2.0
"""Seconds until the connection is closed, if the client has not closed it before."""
LINGER_BYTES = 16 * 1024 * 1024
"""Bytes that are dropped before the connection is closed: more than the kernels of both sides hold."""
START = 4096
"""Bytes of a request that are given to the function that makes the response."""


class LingeringClose(asyncio.Protocol):
    """Replaces the protocol of a transport, which then gets only `connection_lost`.

    `make_response` makes the response from the first bytes of the request: those are `request_start`, or, if that is
    None, the next bytes received. The object is in `registry` until the connection is closed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        make_response: Callable[[bytes], bytes],
        request_start: bytes | None,
        registry: set[LingeringClose],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._replaced = cast("asyncio.Protocol", transport.get_protocol())
        self._transport = transport
        self._make_response: Callable[[bytes], bytes] | None = make_response
        self._deadline = loop.time() + LINGER
        self._bytes_left = LINGER_BYTES
        self._wheel: TimerWheel = timer_wheel(loop, 1.0)
        self._wheel_slot = self._wheel.add(self)
        self._registry = registry
        registry.add(self)
        transport.set_protocol(self)
        if not transport.is_reading() and not transport.is_closing():
            transport.resume_reading()
        if request_start is not None:
            self._respond(request_start)

    def data_received(self, data: bytes) -> None:
        """Respond to the first bytes, drop all others."""
        self._bytes_left -= len(data)
        if self._make_response is not None:
            self._respond(data[:START])
        elif self._bytes_left < 0:
            self.abort()

    def _respond(self, request_start: bytes) -> None:
        make_response, self._make_response = self._make_response, None
        if make_response is None or self._transport.is_closing():
            return
        self._transport.write(make_response(request_start))
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def eof_received(self) -> bool | None:
        """Close the connection, as the client has closed its side."""
        return None

    def on_tick(self, now: float, /) -> None:
        """Close the connection after `LINGER` seconds: called by the timer wheel."""
        if now >= self._deadline:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the timer and pass the event on to the replaced protocol."""
        self._wheel.remove(self, self._wheel_slot)
        self._registry.discard(self)
        self._replaced.connection_lost(cast("Exception | None", exc))
