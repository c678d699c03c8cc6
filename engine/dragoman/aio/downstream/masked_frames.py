"""Rules for a client's WebSocket frames that aiohttp's reader does not check.

A client masks each frame (RFC 6455 §5.1), begins a message only once the one before has ended (RFC 6455 §5.4), and
closes with a code that a frame may have (RFC 6455 §7.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

FRAMES: Final = 256
"""Frames that are passed in one turn of the event loop. A network read may have 43,000 empty ones: twenty milliseconds
of work."""
_FORBIDDEN = b"\x70\x80"
"""The header of a frame with reserved bits, for which aiohttp's reader closes the connection with 1002."""
_EXTENDED = {126: 2, 127: 8}
"""Bytes of a length that does not fit its 7 bits."""


def may_be_sent(code: int) -> bool:
    """Return whether a frame may have a close code that aiohttp's reader has accepted."""
    return code != 1006 and code < 5000


class FrameReader(Protocol):
    """aiohttp's reader of frames."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read what has arrived. Return whether the connection has ended, and what was not read."""

    def feed_eof(self) -> None:
        """End the connection."""


class MaskedFrames:
    """Passes frames to a `reader`. The first one that is not masked, or that begins a message within another one, ends
    the connection with 1002.

    Only the headers of the frames are looked at: the cost does not depend on the size of the payloads. A turn of the
    event loop has `FRAMES` of them. If there are more, `wait(read, left)` is called: it calls `read` in a later turn,
    which returns whether the connection has ended. `left` is the number of bytes that wait.
    """

    __slots__ = ("_head", "_left", "_open", "_reader", "_rest", "_wait")

    def __init__(self, reader: FrameReader, wait: Callable[[Callable[[], bool], int], None]) -> None:
        self._reader = reader
        self._wait = wait
        self._head = b""
        """The beginning of a header, at most 9 bytes: the reader gets it with the rest."""
        self._left = 0
        """Bytes of the frame that have not arrived."""
        self._open = False
        """True within a message of several frames. aiohttp's reader misses that while they are empty."""
        self._rest = b""
        """Frames that wait for a turn."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read what has arrived, as the reader does."""
        if self._rest:
            self._rest += data  # it arrived although reading is paused
            return False, b""
        return self._pass(data)

    def _read_on(self) -> bool:
        rest, self._rest = self._rest, b""
        return self._pass(rest)[0]

    def _pass(self, data: bytes) -> tuple[bool, bytes]:
        data = self._head + data if self._head else data
        start, size, frames = self._left, len(data), 0
        while start < size:
            if frames == FRAMES:
                self._head, self._left, self._rest = b"", 0, data[start:]
                self._wait(self._read_on, size - start)
                return self._reader.feed_data(data[:start])
            frames += 1
            if size - start >= 2 and not data[start + 1] & 0x80:
                return self._reader.feed_data(data[:start] + _FORBIDDEN)
            length = data[start + 1] & 0x7F if size - start >= 2 else 0
            end = start + 2 + (extended := _EXTENDED.get(length, 0))
            if size < end:
                self._head, self._left = data[start:], 0
                return self._reader.feed_data(data[:start])
            if extended:
                length = int.from_bytes(data[start + 2 : end], "big")
            if (opcode := data[start] & 0xF) < 8:
                if opcode and self._open:
                    return self._reader.feed_data(data[:start] + _FORBIDDEN)
                self._open = data[start] < 0x80
            start = end + 4 + length
        self._head, self._left = b"", start - size
        return self._reader.feed_data(data)

    def feed_eof(self) -> None:
        """End the connection. Frames that wait are dropped, as the client has left."""
        self._rest = b""
        self._reader.feed_eof()
