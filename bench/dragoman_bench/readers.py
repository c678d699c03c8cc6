"""Client connections that read slower than the others of a load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman_bench.receiver import Receiver, Tally


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
