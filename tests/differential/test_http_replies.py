"""HTTP replies, as the parser of upstreams reads them and as h11 does: what both accept is the same to both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import h11
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman.aio.upstream.http11.response_parser import ResponseParser
from support.strategies import splits


@dataclass(slots=True)
class Reply:
    """A reply as one of the two reads it. `complete` is False for one that is not whole, `error` for one refused."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    complete: bool = False
    error: bool = False


def own(pieces: Sequence[bytes]) -> Reply:
    """Read a reply with the parser of upstreams; the connection ends behind the last piece."""
    parser, reply = ResponseParser(15.0), Reply()
    try:
        for piece in pieces:
            parser.http.feed_data(piece)
    except Exception:
        reply.error = True
    reply.status, reply.body = parser.status, b"".join(parser.pieces)
    reply.headers = [(name.lower(), value) for name, value in parser.headers.items()] if parser.status else []
    reply.complete = parser.complete or (parser.status > 0 and parser.ends_with_close and not reply.error)
    parser.close()
    return reply


def judged(pieces: Sequence[bytes]) -> Reply:
    """Read a reply with h11."""
    connection, reply = h11.Connection(h11.CLIENT), Reply()
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    waiting = [*pieces, b""]
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if not waiting:
                    return reply
                connection.receive_data(waiting.pop(0))
            elif isinstance(event, h11.Response):
                reply.status = event.status_code
                reply.headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                reply.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                reply.complete = True
                return reply
            elif not isinstance(event, h11.InformationalResponse):
                return reply
    except h11.RemoteProtocolError:
        reply.error = True
        return reply


_LINES = st.sampled_from(
    (b"HTTP/1.1 200 OK", b"HTTP/1.1 200", b"HTTP/1.1 204 No", b"HTTP/1.1 304 -", b"HTTP/1.0 200 OK", b"HTTP/1.1 529 -")
)
_CHANGES = st.sampled_from((b"", b"\n", b"\r", b" ", b"\0", b":", b"9", b"a", b"\r\n"))
_NAMES = st.sampled_from((b"x-a", b"X-B", b"retry-after", b"content-type", b"x_c", b"keep-alive", b"connection"))
_VALUES = st.sampled_from((b"1", b"", b" a  b ", b"\ta", b"close", b"caf\xc3\xa9", b"timeout=5", b'"q, r"'))
_FRAMING = st.sampled_from(
    (
        b"content-length: %d",
        b"Content-Length:%d",
        b"content-length: 0%d",
        b"content-length: +%d",
        b"content-length: %d, %d",
        b"content-length: -1",
        b"content-length: %d\r\ncontent-length: %d",
        b"transfer-encoding: chunked",
        b"Transfer-Encoding: Chunked",
        b"transfer-encoding: gzip, chunked",
        b"transfer-encoding: chunked\r\ncontent-length: %d",
        b"x-none: 1",
    )
)
_DATA = st.binary(max_size=40)


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """The bytes of a reply: usual ones, odd ones, and ones of which a byte or two were changed."""
    body, framing = draw(_DATA), draw(_FRAMING)
    count = framing.count(b"%d")
    headers = [name + b": " + value for name, value in draw(st.lists(st.tuples(_NAMES, _VALUES), max_size=4))]
    headers.insert(draw(st.integers(0, len(headers))), framing % ((len(body),) * count))
    if b"hunked" in framing:
        sent = b""
        for piece in draw(st.lists(_DATA.filter(bool), max_size=3)):
            size = draw(st.sampled_from((b"%x", b"%X", b"0%x", b"%x;a=b", b"%x ;a", b"%x "))) % len(piece)
            sent += size + b"\r\n" + piece + b"\r\n"
        body = sent + b"0\r\n" + draw(st.sampled_from((b"", b"x-t: 1\r\n", b"content-length: 4\r\n"))) + b"\r\n"
    interim = draw(st.sampled_from((b"", b"", b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n", b"HTTP/1.1 100\r\n\r\n")))
    data = b"\r\n".join((draw(_LINES), *headers)) + b"\r\n\r\n" + body
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        # Not in the first line, whose reason nothing reads: llhttp takes what h11 refuses there.
        at = draw(st.integers(data.index(b"\n") + 1, len(data) - 1))
        data = data[:at] + draw(_CHANGES) + data[at + 1 :]
    return interim + data


def _plain(name: str, value: str) -> str:
    """Return a value as h11 has it: without white space around it, a coding in lower case."""
    return value.strip(" \t").lower() if name == "transfer-encoding" else value.strip(" \t")


@given(data=st.data())
def test_what_both_accept_is_the_same(data: st.DataObject) -> None:
    raw = data.draw(replies())
    note(repr(raw))
    mine, theirs = own(data.draw(splits(raw))), judged([raw])
    if mine.complete and theirs.complete:
        assert mine.status == theirs.status
        assert mine.body == theirs.body
        decoded = [(name, value.encode("utf-8", "surrogateescape").decode("latin-1")) for name, value in mine.headers]
        assert [(name, _plain(name, value)) for name, value in decoded] == theirs.headers


@given(raw=replies())
def test_a_reply_that_h11_refuses_is_not_taken_for_whole(raw: bytes) -> None:
    mine, theirs = own([raw]), judged([raw])
    if theirs.error:
        assert not mine.complete, (mine, raw)
