"""Comparison of HTTP parsers for upstream responses. httptools is used: it is cheaper per chunk, and stricter.

python bench/experiments/http_parsers.py

Nanoseconds per chunk of a chunked event stream, each chunk of 220 bytes, from the bytes of a network read to the bytes
of the body; minimum of many interleaved rounds; all produce an equal body.

    a read of      httptools   aiohttp's   by hand
     1 chunk           320        1740        780
    16 chunks          130        1280        720

(CPython 3.11, httptools 0.9, aiohttp 3.14.5, a virtual machine of two cores, November 2026.)

aiohttp's parser (`_http_parser.HttpResponseParser`) makes a StreamReader of its own for the body, which counts chunks
and sizes, wakes a future and is read again; it also unfolds headers and accepts bare line feeds. Decoding chunks in
Python without any checks was measured as a bound: it is slower than httptools.
"""

from __future__ import annotations

import asyncio
import timeit
from collections.abc import Callable
from functools import partial
from typing import Any

import httptools
from aiohttp._http_parser import HttpResponseParser  # type: ignore[import-not-found, import-untyped, unused-ignore]
from aiohttp.base_protocol import BaseProtocol

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b"data: " + b"x" * 212 + b"\n\n"
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
ROUNDS, READS = 40, 500


class Pieces:
    """Callbacks of httptools: the body's bytes are appended to a list without a Python frame."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append

    def on_headers_complete(self) -> None:
        """Called after the head."""


def by_httptools() -> Callable[[bytes], bytes]:
    """Parse with httptools into a list that is emptied after each read."""
    holder = Pieces()
    pieces, feed = holder.pieces, httptools.HttpResponseParser(holder).feed_data
    feed(HEAD)

    def read(data: bytes) -> bytes:
        feed(data)
        body = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        pieces.clear()
        return body

    return read


def by_aiohttp() -> Callable[[bytes], bytes]:
    """Parse with aiohttp into its StreamReader, read without waiting."""
    loop = asyncio.get_running_loop()
    parser: Any = HttpResponseParser(BaseProtocol(loop), loop, 2**16, read_until_eof=True, auto_decompress=False)
    messages, _, _ = parser.feed_data(HEAD)
    reader = messages[0][1]

    def read(data: bytes) -> bytes:
        parser.feed_data(data)
        return bytes(reader.read_nowait(-1))

    return read


def by_hand() -> Callable[[bytes], bytes]:
    """Decode reads of complete chunks without any checks, as a bound."""

    def read(data: bytes) -> bytes:
        pieces = []
        at = 0
        while at < len(data):
            end = data.index(b"\r\n", at)
            size = int(data[at:end], 16)
            pieces.append(data[end + 2 : end + 2 + size])
            at = end + size + 4
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    return read


async def main() -> None:
    """Print the table."""
    ways = {"httptools": by_httptools(), "aiohttp": by_aiohttp(), "by hand": by_hand()}
    for chunks in (1, 16):
        data = CHUNK * chunks
        best = dict.fromkeys(ways, float("inf"))
        for name, read in ways.items():
            assert read(data) == EVENT * chunks, name
        for _ in range(ROUNDS):
            for name, read in ways.items():
                seconds = timeit.timeit(partial(read, data), number=READS)
                best[name] = min(best[name], seconds / READS / chunks)
        shown = ", ".join(f"{name} {seconds * 1e9:.0f}" for name, seconds in best.items())
        print(f"{chunks} chunks a read: {shown}")


if __name__ == "__main__":
    asyncio.run(main())
