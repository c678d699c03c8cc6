"""The end of a connection whose client is refused before it has sent all of its request.

Closing a socket with unread bytes resets the connection, and the reset destroys a reply that the client has not read.
So the reply is written, the sending side is closed, and what still comes is dropped for a short while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dragoman.aio.timer_wheel import TimerWheel, timer_wheel

LINGER = 2.0
"""Seconds until the connection is closed, if the client has not closed it by then."""
START = 4096
"""Bytes of a request that are looked at to choose the reply."""


class LingeringClose(asyncio.Protocol):
    """Takes a transport over from its protocol, which then only gets `connection_lost`.

    `reply` makes the reply from the first bytes of the request: those are `start`, or what comes next if it is None.
    It is in `among` until the connection is closed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        reply: Callable[[bytes], bytes],
        start: bytes | None,
        among: set[LingeringClose],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._before = cast("asyncio.Protocol", transport.get_protocol())
        self._transport = transport
        self._reply: Callable[[bytes], bytes] | None = reply
        self._due = loop.time() + LINGER
        self._wheel: TimerWheel = timer_wheel(loop, 1.0)
        self._slot = self._wheel.add(self)
        self._among = among
        among.add(self)
        transport.set_protocol(self)
        if not transport.is_reading() and not transport.is_closing():
            transport.resume_reading()
        if start is not None:
            self._write(start)

    def data_received(self, data: bytes) -> None:
        """Answer the first bytes, drop the others."""
        if self._reply is not None:
            self._write(data[:START])

    def _write(self, start: bytes) -> None:
        reply, self._reply = self._reply, None
        if reply is None or self._transport.is_closing():
            return
        self._transport.write(reply(start))
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def eof_received(self) -> bool | None:
        """The client has closed its side too: the connection ends."""
        return None

    def on_tick(self, now: float, /) -> None:
        """The wheel's look at it."""
        if now >= self._due:
            self.abort()

    def abort(self) -> None:
        """Drop the client."""
        self._transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The end."""
        self._wheel.remove(self, self._slot)
        self._among.discard(self)
        self._before.connection_lost(cast("Exception | None", exc))
