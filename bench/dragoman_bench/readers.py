"""Client connections that read slower, or more, than the others of a load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from dragoman_bench.receiver import Receiver, Tally

_BLAST_BUFFER = 256 * 1024
_BODY_END = b"\r\n0\r\n\r\n"


class SlowReceiver(Receiver, asyncio.BufferedProtocol):
    """Reads at most `size` bytes, then pauses until the next `tick`."""

    __slots__ = ("_buffer",)

    def __init__(self, dialect: str, size: int, tally: Tally, done: Callable[[Receiver, str | None], None]) -> None:
        super().__init__(dialect, tally, done)
        self._buffer = bytearray(size)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the event loop."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        if self.transport is not None:
            self.transport.pause_reading()
        self.data_received(bytes(self._buffer[:nbytes]))

    def tick(self) -> None:
        """Read once more."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()


class BlastReader(asyncio.BufferedProtocol):
    """Requests one stream after another and drops the data: parsing it would take CPU time from the other streams.

    Comments need not arrive: a gateway may drop them.
    """

    def __init__(self, request: bytes, *, comments: bool = False) -> None:
        self._request = request
        self._comments = comments
        self.buffer = bytearray(_BLAST_BUFFER)
        self._begun = False
        self._tail = b""
        self.transport: asyncio.Transport | None = None
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Called by the event loop."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop."""
        self.received += nbytes
        self._tail = (self._tail + self.buffer[max(0, nbytes - len(_BODY_END)) : nbytes])[-len(_BODY_END) :]
        if self._tail == _BODY_END and self.transport is not None:
            self.transport.write(self._request)

    def end(self, tally: Tally) -> None:
        """Disconnect. Too little data is an error."""
        if self.received < len(self.buffer) and not (self._comments and self.received):
            tally.error("neighbour", f"{self.received} bytes of a stream that is sent as fast as it is read")
        if self.transport is not None:
            self.transport.abort()
