"""Bodies in br and zstd, as other programs write them."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest

from dragoman.aio import decompress

brotli: Any = import_module("brotli")
zstd: Any = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def packed_br(data: bytes) -> bytes:
    """Return one stream of br, in the quality in which servers pack replies."""
    packed: bytes = brotli.compress(data, quality=5)
    return packed


def packed_zstd(data: bytes, *, window_log: int | None = None) -> bytes:
    """Return one frame of zstd with a checksum. Its length is not in its head, as in a body that is sent in pieces.

    With a `window_log` the frame has this window, for which a program without a limit allocates memory.
    """
    options = {zstd.CompressionParameter.checksum_flag: 1}
    if window_log is not None:
        options[zstd.CompressionParameter.window_log] = window_log
    packer = zstd.ZstdCompressor(options=options)
    packed: bytes = packer.compress(data) + packer.flush()
    return packed


def skippable(data: bytes) -> bytes:
    """Return a frame of zstd that is to be skipped (RFC 8878 §3.1.2)."""
    return struct.pack("<II", 0x184D2A50, len(data)) + data


def flushed(name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each piece of a body, flushed, in gzip, br or zstd, and then the end of the body."""
    add, flush, finish = _packer(name)
    for piece in pieces:
        yield add(piece) + flush()
    yield finish()


def _packer(name: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes], Callable[[], bytes]]:
    if name == "br":
        packer = brotli.Compressor()
        return packer.process, packer.flush, packer.finish
    if name == "zstd":
        packer = zstd.ZstdCompressor()
        return packer.compress, lambda: bytes(packer.flush(packer.FLUSH_BLOCK)), packer.flush
    deflater = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return deflater.compress, lambda: deflater.flush(zlib.Z_SYNC_FLUSH), deflater.flush


def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the gateway read what it does without the extra `compression`."""
    openers = {name: opener for name, opener in decompress._OPENERS.items() if name in ("gzip", "deflate")}
    monkeypatch.setattr(decompress, "_OPENERS", openers)
