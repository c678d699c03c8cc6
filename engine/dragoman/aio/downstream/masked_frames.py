"""The rule that a client masks each of its WebSocket frames (RFC 6455 §5.1), which aiohttp's reader does not check."""

from __future__ import annotations

from typing import Protocol

_FORBIDDEN = b"\x70\x80"
"""The header of a frame with reserved bits, for which aiohttp's reader closes the connection with 1002."""
_EXTENDED = {126: 2, 127: 8}
"""Bytes of a length that does not fit its 7 bits."""


class FrameReader(Protocol):
    """aiohttp's reader of frames."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read what has arrived. Return whether the connection has ended, and what was not read."""

    def feed_eof(self) -> None:
        """End the connection."""


class MaskedFrames:
    """Passes the frames that are masked to a `reader`. The first one that is not ends the connection with 1002.

    Only the headers of the frames are looked at: the cost does not depend on the size of the payloads.
    """

    __slots__ = ("_head", "_left", "_reader")

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._head = b""
        """The beginning of a header, at most 9 bytes: the reader gets it with the rest."""
        self._left = 0
        """Bytes of the frame that have not arrived."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read what has arrived, as the reader does."""
        data = self._head + data if self._head else data
        start, size = self._left, len(data)
        while start < size:
            if size - start >= 2 and not data[start + 1] & 0x80:
                return self._reader.feed_data(data[:start] + _FORBIDDEN)
            length = data[start + 1] & 0x7F if size - start >= 2 else 0
            end = start + 2 + (extended := _EXTENDED.get(length, 0))
            if size < end:
                self._head, self._left = data[start:], 0
                return self._reader.feed_data(data[:start])
            if extended:
                length = int.from_bytes(data[start + 2 : end], "big")
            start = end + 4 + length
        self._head, self._left = b"", start - size
        return self._reader.feed_data(data)

    def feed_eof(self) -> None:
        """End the connection."""
        self._reader.feed_eof()
