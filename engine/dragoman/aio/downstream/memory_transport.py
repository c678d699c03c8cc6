"""A transport without a socket: one side is a protocol of asyncio, the other a coroutine in the same event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

HIGH = 1 << 16
"""Unread bytes above which the protocol's writing is paused."""
LOW = HIGH >> 2
"""Unread bytes at which it is resumed."""


class MemoryTransport(asyncio.Transport):
    """The connection of `protocol`, which is to be started with `connection_made`.

    `deliver` passes bytes to the protocol, `read` returns what it has written, `stop` ends the connection. `info` are
    the values of `get_extra_info`. `interrupt` is called when the connection ends while the coroutine that reads waits
    for something else than `read`.
    """

    def __init__(self, protocol: asyncio.BaseProtocol, info: Mapping[str, Any], interrupt: Callable[[], None]) -> None:
        super().__init__(dict(info))
        self._protocol = cast("asyncio.Protocol", protocol)
        self._interrupt: Callable[[], None] | None = interrupt
        self._written: deque[bytes] = deque()
        self._unread = 0
        """Bytes written that were not read, with the piece that `read` has returned last."""
        self._last = 0
        """Bytes of the piece that `read` has returned last. The caller may still be sending it."""
        self._waiter: asyncio.Future[None] | None = None
        """Set while `read` waits."""
        self._readable = asyncio.Event()
        self._readable.set()
        self._writing_paused = self._closing = self._lost = False

    def __repr__(self) -> str:
        state = "lost" if self._lost else "closing" if self._closing else "open"
        return f"<MemoryTransport {state} unread={self._unread}>"

    # --- the side of the coroutine -----------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Pass bytes to the protocol, unless the connection is closing."""
        if not self._closing:
            self._protocol.data_received(data)

    async def readable(self) -> None:
        """Wait while the protocol has paused reading."""
        await self._readable.wait()

    async def read(self) -> bytes:
        """Return the next piece that the protocol has written, or b"" if it has closed the connection."""
        self._unread -= self._last
        self._last = 0
        if self._writing_paused and self._unread <= LOW:
            self._writing_paused = False
            self._protocol.resume_writing()
        while not self._written:
            if self._closing:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = self._written.popleft()
        self._last = len(piece)
        return piece

    def stop(self) -> None:
        """End the connection at once, without an interruption: called by the coroutine that reads."""
        self._interrupt = None
        self.lose()

    def lose(self, error: Exception | None = None) -> None:
        """End the connection at once, as the client has disconnected. Further calls have no effect."""
        self.abort()
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(error)

    # --- the side of the protocol ------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Queue bytes for `read`, which returns those of each call together."""
        if self._closing or not data:
            return
        piece = bytes(data)
        self._written.append(piece)
        self._unread += len(piece)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._unread > HIGH and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return the number of unread bytes."""
        return self._unread

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return `LOW` and `HIGH`."""
        return LOW, HIGH

    def can_write_eof(self) -> bool:
        """Return False: the connection is closed in both directions."""
        return False

    def is_closing(self) -> bool:
        """Return whether the connection is closing or lost."""
        return self._closing

    def close(self) -> None:
        """Close the connection once all that was written is read."""
        self._closing = True
        self._readable.set()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def abort(self) -> None:
        """Close the connection, and drop what is unread."""
        if self._closing and not self._written and not self._last:
            return
        interrupt, self._interrupt = self._interrupt if self._waiter is None else None, None
        self._written.clear()
        self._unread = self._last = 0
        self.close()
        if interrupt is not None:
            interrupt()

    def is_reading(self) -> bool:
        """Return whether reading is not paused."""
        return self._readable.is_set()

    def pause_reading(self) -> None:
        """Make `readable` wait."""
        if not self._closing:
            self._readable.clear()

    def resume_reading(self) -> None:
        """End the wait in `readable`."""
        self._readable.set()

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the protocol."""
        self._protocol = cast("asyncio.Protocol", protocol)
