"""Decompresses gzip and deflate bodies while they are read, one bounded piece at a time.

A few compressed bytes may expand to gigabytes. No step expands more than `PIECE` bytes, so the memory is bounded, and
the reader's limit on the body stops the expansion. Gzip may have a member for every 20 bytes: the work is linear in
the bytes of them all.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from dragoman.errors import StreamTruncated, UpstreamProtocolError

ACCEPTED = "gzip, deflate"
"""The `accept-encoding` of requests for complete bodies."""
PIECE = 256 * 1024
"""Bytes that one step may expand to."""

_GZIP = 16 + zlib.MAX_WBITS
_INPUT = 64 * 1024
"""Most bytes that a step reads. zlib copies those that it did not use."""
_FURTHER = 256
"""Bytes that the first step of a further member reads; each step after it reads twice as many."""
_ZEROS = re.compile(rb"\0*")


class ReplyDecompressor:
    """Decompresses one body: gzip with any number of members, or deflate with or without zlib's wrapper."""

    __slots__ = ("_input", "_name", "_stream")

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: zlib._Decompress | None = None
        self._input = _INPUT
        """Bytes that the next step reads."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the expansion of `data` in pieces; take all of them before the next call. Raises StreamTruncated.

        There is at least one piece for each member but the last one: an empty one, if the member is empty.
        """
        at = 0
        while at < len(data):
            stream = self._stream
            if stream is None or stream.eof:
                if stream is not None:
                    if (found := _ZEROS.match(data, at)) is not None:
                        at = found.end()  # some servers pad the end with zeros
                    if at == len(data):
                        return
                    if self._name != "gzip":
                        raise StreamTruncated(f"upstream's {self._name} body is corrupt")
                    self._input = _FURTHER
                stream = self._stream = self._begin(data[at])
            step = data[at : at + self._input]
            self._input = min(2 * self._input, _INPUT)
            try:
                piece = stream.decompress(step, PIECE)
                if piece:
                    yield piece
                # A full piece may leave more inside zlib, though all input went in.
                while len(piece) == PIECE or stream.unconsumed_tail:
                    if piece := stream.decompress(stream.unconsumed_tail, PIECE):
                        yield piece
            except zlib.error as error:
                raise StreamTruncated(f"upstream's {self._name} body is corrupt") from error
            at += len(step) - len(stream.unused_data)
            if stream.eof and not piece and at < len(data):
                yield b""

    def finish(self) -> None:
        """End the body. Raises StreamTruncated if its compressed form is incomplete."""
        if self._stream is not None and not self._stream.eof:
            raise StreamTruncated(f"upstream's {self._name} body was cut short")

    def _begin(self, first: int) -> zlib._Decompress:
        if self._name == "gzip":
            return zlib.decompressobj(_GZIP)
        # The low half of zlib's first byte is 8; in raw deflate that would be a stored block with padding set.
        return zlib.decompressobj(zlib.MAX_WBITS if first & 15 == zlib.DEFLATED else -zlib.MAX_WBITS)


def decompressor(encoding: str) -> ReplyDecompressor | None:
    """Return the decompressor for a `content-encoding`, or None if the body is not compressed.

    Raises UpstreamProtocolError for any other encoding.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip"):
        return ReplyDecompressor("gzip")
    if name == "deflate":
        return ReplyDecompressor("deflate")
    shown = name[:40] if name.isascii() and name.isprintable() else "unknown"
    raise UpstreamProtocolError(
        f"the upstream's reply is in the content-encoding {shown!r}, which it was not asked for; "
        "only gzip and deflate are understood: switch its compression off"
    )
