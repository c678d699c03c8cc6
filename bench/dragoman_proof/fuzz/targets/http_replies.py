"""The HTTP replies of upstreams, as a connection of the raw transport reads them, and as h11 does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import h11

from dragoman import Dialect
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.response_parser import ResponseParser
from dragoman_proof.fuzz import seeds
from dragoman_proof.fuzz.target import Target, pieces, require

_OPTIONS = PoolOptions(head=4096, unread=16_384)
_AMPLIFIED = 1024 * 1024
_PIECE = 4096
_HELD = 512 * 1024
"""More bytes than a connection may keep with these options: a long read, its head, and chunk overhead."""
_HEADS = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nkeep-alive: timeout=5\r\n\r\n%b",
    b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\nHTTP/1.1 429 No\r\nretry-after: 2\r\nContent-Length: %d\r\n\r\n%b",
    b"HTTP/1.0 200 OK\r\nx: %d\r\n\r\n%b",
    b"HTTP/1.1 204 No\r\nx: %d\r\n\r\n%b",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x;a=b\r\n%b\r\n0\r\nx-t: 1\r\n\r\n",
)
_WORDS = (
    b"HTTP/1.1 |HTTP/1.0 |content-length: |Content-Length:0|transfer-encoding: chunked|gzip, chunked|connection: close|"
    b"keep-alive: timeout=|\r\n|\r\n\r\n|\n\n|0\r\n\r\n|1\r\na\r\n|;a=b|100 |101 |204 |304 |\r\n |\0|\xff|: |ffffff\r\n"
).split(b"|")


def target(_: str) -> Target:
    """Return the target."""
    bodies = [data[:300] for data in seeds.streams(Dialect.CHAT)[:3]]
    inputs = [head % (len(body), body) for head in _HEADS for body in (b"", b"{}", *bodies)]
    return Target(_check, inputs, _WORDS, longest=1500)


def _check(data: bytes) -> None:
    whole = _read([data])
    for split in pieces(data):
        read = _read(split)
        require(read[:-1] == whole[:-1], "any split of a reply is read alike")
    status, headers, body, complete = whole
    theirs = _judged(data)
    if theirs is not None and complete:
        plain = [(name, value.encode("utf-8", "surrogateescape").decode("latin-1")) for name, value in headers]
        require((status, body) == (theirs[0], theirs[2]), "h11 reads the same reply")
        require([_plain(*row) for row in plain] == [_plain(*row) for row in theirs[1]], "h11 reads the same headers")
    _check_memory(data)


def _plain(name: str, value: str) -> tuple[str, str]:
    value = value.strip(" \t")
    return name, value.lower() if name == "transfer-encoding" else value


def _read(split: Sequence[bytes]) -> tuple[int, list[tuple[str, str]], bytes, bool]:
    """Return the status, the headers and the body, and whether the reply is complete at the end of the bytes."""
    parser, failed = ResponseParser(15.0), False
    try:
        for piece in split:
            parser.http.feed_data(piece)
    except Exception:  # httptools wraps what its callbacks raise, and has several types of its own
        failed = True
    status, body = parser.status, b"".join(parser.pieces)
    headers = [(name.lower(), value) for name, value in parser.headers.items()] if status else []
    complete = parser.complete or (status > 0 and parser.ends_with_close and not failed)
    parser.close()
    return status, headers, body, complete


def _judged(data: bytes) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """Return a reply as h11 reads it; None if it does not accept the reply, or it is not complete."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    status, headers, body = 0, list[tuple[str, str]](), b""
    waiting = [b"", data]
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if not waiting:
                    return None
                connection.receive_data(waiting.pop())
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif not isinstance(event, h11.InformationalResponse):
                return (status, headers, body) if isinstance(event, h11.EndOfMessage) else None
    except h11.RemoteProtocolError:
        return None


class _Turn:
    """The event loop of one connection, in the one turn in which all of its reads are made."""

    def call_soon(self, *_: object) -> None: ...


class _Wire:
    """The transport of a connection, and its pool: they count what the connection may not do."""

    options = _OPTIONS

    def __init__(self) -> None:
        self.loop: Any = _Turn()
        self.reads = True

    def add(self, _: object) -> None: ...

    def put_idle(self, _: object, seconds: float) -> None: ...

    def discard(self, _: object) -> None: ...

    def get_extra_info(self, _: str) -> _Wire:
        return self

    def fileno(self) -> int:
        return -1

    def write(self, _: bytes) -> None: ...

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.reads = False


def _check_memory(data: bytes) -> None:
    """Repeat the end of a reply for ever to a connection whose reader is slow: it pauses reading, or refuses more."""
    wire: Any = _Wire()
    connection = Connection(wire)
    connection.connection_made(wire)
    connection.send(b"POST / HTTP/1.1\r\n\r\n", b"")
    tail = data[-100:] or b"\n"
    tail *= _PIECE // len(tail) + 1
    sent = 0
    for piece in (data, *repeat(tail, _AMPLIFIED // max(1, len(tail)))):
        if not wire.reads or connection.phase not in ("HEAD", "BODY"):
            break
        connection.data_received(piece)
        sent += len(piece)
        parser = connection.parser
        held = sum(map(len, parser.pieces)) + sum(len(name) + len(value) for name, value in parser.headers.items())
        require(held <= _HELD, "a connection holds no more than its limits")
    else:
        require(sent < _HELD, "a connection pauses reading, or refuses a reply that goes on for ever")
