"""Decompresses bodies while they are read, one bounded piece at a time: gzip, deflate, br and zstd.

A few compressed bytes may expand to gigabytes. No step expands more than `PIECE` bytes, so the memory is bounded, and
the reader's limit on the body stops the expansion. Gzip may have a member for every 20 bytes, zstd a frame for every
9: the work is linear in the bytes of them all.

br and zstd need packages of the extra `compression`. Python 3.14 has zstd itself.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

PIECE: Final = 256 * 1024
"""Bytes that one step may expand to."""
CODINGS_MAX: Final = 3
"""Most codings of one body. Each may expand what the one outside it expanded."""
CURE: Final = "install Dragoman with the extra compression"
"""The command that installs what br and zstd need."""
ZSTD_WINDOW_LOG: Final = 23
"""Largest window of zstd, as a power of two: 8 MiB (RFC 9659 §3). That of br is 16 MiB at most (RFC 7932 §9.1)."""

_GZIP = 16 + zlib.MAX_WBITS
_INPUT = 64 * 1024
"""Most bytes that a step reads. The libraries copy those that they did not use."""
_FURTHER = 256
"""Bytes that the first step of a further member reads; each step after it reads twice as many."""
_ZEROS = re.compile(rb"\0*")


class CorruptBody(ValueError):
    """A compressed body is not what its content-encoding names. `reason` is a clause after "its body"."""

    def __init__(self, coding: str, problem: str) -> None:
        super().__init__(f"its {coding} body {problem}")
        self.coding = coding
        self.problem = problem


class UnsupportedEncoding(ValueError):
    """A content-encoding cannot be read. `readable` names those that can; `cure` is the command that installs what
    this one needs, or empty."""

    def __init__(self, encoding: str, readable: str, cure: str) -> None:
        super().__init__(encoding)
        self.readable = readable
        self.cure = cure


def _optional(name: str) -> Any:
    """Return a module, or None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


_brotli = _optional("brotli")
if not hasattr(getattr(_brotli, "Decompressor", None), "can_accept_more_data"):
    _brotli = None  # before 1.2 its output has no limit
_zstd = _optional("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

_ERRORS: tuple[type[Exception], ...] = (zlib.error,)
if _brotli is not None:
    _ERRORS += (_brotli.error,)
if _zstd is not None:
    _ERRORS += (_zstd.ZstdError,)


class _Zlib:
    """A member of gzip, or a body in deflate with or without zlib's wrapper."""

    def __init__(self, wbits: int) -> None:
        self._inner = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    def unused(self) -> int:
        return len(self._inner.unused_data)

    def expand(self, data: bytes) -> Iterator[bytes]:
        inner = self._inner
        piece = inner.decompress(data, PIECE)
        if piece:
            yield piece
        # A full piece may leave more inside zlib, though all input went in.
        while len(piece) == PIECE or inner.unconsumed_tail:
            if piece := inner.decompress(inner.unconsumed_tail, PIECE):
                yield piece


class _Brotli:
    """A body in br, which is one stream. The library rejects bytes behind its end."""

    def __init__(self) -> None:
        self._inner = _brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._inner.is_finished())

    def unused(self) -> int:
        return 0

    def expand(self, data: bytes) -> Iterator[bytes]:
        inner = self._inner
        while True:
            # The library may exceed its limit by less than the limit itself.
            piece: bytes = inner.process(data, output_buffer_limit=PIECE // 2)
            if piece:
                yield piece
            data = b""
            if inner.is_finished() or (not piece and inner.can_accept_more_data()):
                return


class _Zstd:
    """A frame of zstd. One that can be skipped is empty."""

    def __init__(self) -> None:
        self._inner = _zstd.ZstdDecompressor(options={_zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    def unused(self) -> int:
        return len(self._inner.unused_data)

    def expand(self, data: bytes) -> Iterator[bytes]:
        inner = self._inner
        while True:
            try:
                piece: bytes = inner.decompress(data, PIECE)
            except _zstd.ZstdError as error:
                if "too much memory" in str(error):
                    raise CorruptBody("zstd", f"has a window above {1 << (ZSTD_WINDOW_LOG - 20)} MiB") from None
                raise
            if piece:
                yield piece
            if inner.eof or inner.needs_input:
                return
            data = b""


_Stream = _Zlib | _Brotli | _Zstd
"""One member, which ends by itself. `expand` yields the expansion of its data in pieces, and raises one of `_ERRORS`;
`unused` returns how many bytes of the last `expand` stand behind the end."""


def _gzip(first: int) -> _Stream:
    return _Zlib(_GZIP)


def _deflate(first: int) -> _Stream:
    # The low half of zlib's first byte is 8; in raw deflate that would be a stored block with padding set.
    return _Zlib(zlib.MAX_WBITS if first & 15 == zlib.DEFLATED else -zlib.MAX_WBITS)


_OPENERS: dict[str, Callable[[int], _Stream]] = {"gzip": _gzip, "deflate": _deflate}
"""The codings that can be read. Each function opens a member by its first byte."""
if _brotli is not None:
    _OPENERS["br"] = lambda first: _Brotli()
if _zstd is not None:
    _OPENERS["zstd"] = lambda first: _Zstd()

ACCEPTED: Final = ", ".join(_OPENERS)
"""The `accept-encoding` of requests for complete bodies: what can be read here."""

_ALIASES = {"x-gzip": "gzip", "x-deflate": "deflate"}
_INSTALLABLE = frozenset(("br", "zstd"))
_CONCATENATED = frozenset(("gzip", "zstd"))
"""Codings of which several members are one body (RFC 1952 §2.2, RFC 8878 §3.1)."""
_PADDED = frozenset(("gzip", "deflate"))
"""Codings whose bodies some servers pad with zeros."""


class _Layer:
    """One coding of a body."""

    __slots__ = ("_input", "_name", "_stream")

    def __init__(self, name: str) -> None:
        self._name = name
        self._stream: _Stream | None = None
        self._input = _INPUT
        """Bytes that the next step reads."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            stream = self._stream
            if stream is None or stream.eof:
                if stream is not None:
                    if self._name in _PADDED and (found := _ZEROS.match(data, at)) is not None:
                        at = found.end()
                    if at == len(data):
                        return
                    if self._name not in _CONCATENATED:
                        raise CorruptBody(self._name, "is corrupt")
                    self._input = _FURTHER
                stream = self._stream = _OPENERS[self._name](data[at])
            step = data[at : at + self._input]
            self._input = min(2 * self._input, _INPUT)
            piece = b""
            try:
                for piece in stream.expand(step):
                    yield piece
            except _ERRORS as error:
                raise CorruptBody(self._name, "is corrupt") from error
            at += len(step) - stream.unused()
            if stream.eof and not piece and at < len(data):
                yield b""

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise CorruptBody(self._name, "was cut short")


class Decompressor:
    """Decompresses one body. `codings` are the names in the order in which they were applied, `limit` the most bytes
    that a coding may expand to for the next one; without it there is no such limit."""

    __slots__ = ("_inside", "_layers", "_limit")

    def __init__(self, codings: tuple[str, ...], limit: int | None = None) -> None:
        self._layers = [_Layer(name) for name in reversed(codings)]
        self._limit = limit
        self._inside = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the expansion of `data` in pieces; take all of them before the next call. Raises CorruptBody.

        There is at least one piece for each member but the last one: an empty one, if the member is empty.
        """
        layers = self._layers
        return layers[0].feed(data) if len(layers) == 1 else self._through(layers, data)

    def _through(self, layers: list[_Layer], data: bytes) -> Iterator[bytes]:
        outer, *inner = layers
        for piece in outer.feed(data):
            if not inner:
                yield piece
                continue
            self._inside += len(piece)
            if self._limit is not None and self._inside > self._limit:
                raise CorruptBody(outer._name, f"expands to more than {self._limit} bytes for its next coding")
            yield from self._through(inner, piece)
            yield b""  # a long piece may expand to nothing

    def finish(self) -> None:
        """End the body. Raises CorruptBody if its compressed form is incomplete."""
        for layer in self._layers:
            layer.finish()


def decompressor(encoding: str, limit: int | None = None) -> Decompressor | None:
    """Return the decompressor for a `content-encoding`, or None if the body is not compressed.

    Raises UnsupportedEncoding for codings that cannot be read, and for more than `CODINGS_MAX` of them. `limit` is that
    of the body in bytes.
    """
    names = [_ALIASES.get(name, name) for word in encoding.split(",") if (name := word.strip().lower())]
    codings = tuple(name for name in names if name != "identity")
    if len(codings) > CODINGS_MAX or any(name not in _OPENERS for name in codings):
        missing = set(codings) - _OPENERS.keys()
        raise UnsupportedEncoding(encoding, ", ".join(_OPENERS), CURE if missing and missing <= _INSTALLABLE else "")
    return Decompressor(codings, limit) if codings else None
