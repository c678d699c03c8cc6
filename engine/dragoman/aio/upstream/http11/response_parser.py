"""A reply as httptools parses it: head, framing, and whether its connection can be used again.

The parser is strict: a reply framed twice, a folded header, a bare line feed or a bad chunk size breaks the connection.
Its `on_body` is the `append` of a list, so that body bytes pass no Python frame on their way. It measured better than
aiohttp's parser (bench/experiments/http_parsers.py).
"""

from __future__ import annotations

import re
from enum import IntEnum

from httptools import HttpParserCallbackError, HttpResponseParser
from multidict import CIMultiDict, istr

from dragoman.aio.timeouts import PoolOptions

_INTERIM_REPLIES = 16
_TIMEOUT = re.compile(r"timeout=([0-9]{1,6})")
_NAMES: dict[bytes, istr] = {}
"""Header names seen: the same few dozen in every reply, and a long stream keeps its headers."""
NO_HEADERS: CIMultiDict[str] = CIMultiDict()


class ConnectionPhase(IntEnum):
    """Where a connection stands."""

    IDLE = 0
    """In the pool."""
    HEAD = 1
    """Just made, or a request was sent; the reply's head is not whole. Some answer before they are asked."""
    BODY = 2
    ENDED = 3
    """The reply is whole; whoever asked has not left yet."""
    FINISHING = 4
    """Whoever asked has left; what is still to come of the body is let go."""
    CLOSED = 5


_HEAD, _BODY, _ENDED, _CLOSED = (
    ConnectionPhase.HEAD,
    ConnectionPhase.BODY,
    ConnectionPhase.ENDED,
    ConnectionPhase.CLOSED,
)


class UnacceptableResponse(Exception):
    """A reply that parses but cannot be had. Raised in the parser's callbacks, which stops it."""


class ResponseParser:
    """What the parser calls. One reply follows another: `expect` before each."""

    __slots__ = (
        "_connections",
        "_interim",
        "_keep",
        "_parser",
        "_phase",
        "_room",
        "_until_close",
        "ended",
        "headers",
        "on_body",
        "pieces",
        "status",
    )

    def __init__(self, connections: PoolOptions) -> None:
        self._connections = connections
        self._phase = _CLOSED  # until it is made
        self._parser: HttpResponseParser | None = None
        self._interim = self._room = self.status = 0
        self._until_close = self.ended = False
        self._keep = 0.0
        self.headers: CIMultiDict[str] = NO_HEADERS
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append

    def expect(self) -> None:
        """A reply comes next."""
        self._phase = _HEAD
        self._room = self._connections.head
        self._interim = self.status = 0
        self.ended = False
        self.headers = CIMultiDict()

    def on_message_begin(self) -> None:
        """A reply begins: the one asked for, or one behind an interim one."""
        if self._phase is not _HEAD:
            raise UnacceptableResponse("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; after the body, a trailer, which nobody wants."""
        if self._phase is _HEAD:
            key = _NAMES.get(name)
            if key is None:
                key = istr(name.decode("ascii"))
                if len(_NAMES) < 512:
                    _NAMES[name] = key
            self.headers.add(key, value.rstrip(b" \t").decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()  # type: ignore[union-attr]
        headers = self.headers
        if status < 200:
            self._interim += 1
            if status == 101 or self._interim > _INTERIM_REPLIES:
                raise UnacceptableResponse(
                    "it switched protocols unasked" if status == 101 else "too many interim replies"
                )
            self.headers = CIMultiDict()
            return
        codings = headers.getall("transfer-encoding", ())
        if codings and (len(codings) > 1 or codings[0].lower() != "chunked"):
            # llhttp would take others for a body that ends with the connection.
            raise UnacceptableResponse("its reply has a transfer-encoding other than chunked")
        self._until_close = not codings and "content-length" not in headers and status not in (204, 304)
        self._keep = self._connections.idle_seconds
        if (told := headers.get("keep-alive")) is not None and (match := _TIMEOUT.search(told.lower())):
            # A second before the server would close it: no request should cross its FIN on the wire.
            self._keep = min(self._keep, max(0.0, int(match[1]) - 1.0))
        self.status = status
        self._phase = _BODY

    def on_message_complete(self) -> None:
        """The body is whole; so is that of an interim reply, which has none."""
        if self._phase is _HEAD:
            return
        self._phase = _ENDED
        self.ended = True
        if not self._parser.should_keep_alive():  # type: ignore[union-attr]
            self._keep = 0.0


def reason(error: BaseException) -> str:
    """What is told of a reply that was given up: a constant of the parser's or of ours, never what came."""
    if isinstance(error, HttpParserCallbackError):
        error = error.__context__ or error
    if isinstance(error, UnacceptableResponse):
        return str(error)
    return f"its reply is not well-formed HTTP/1.1 ({error})"
