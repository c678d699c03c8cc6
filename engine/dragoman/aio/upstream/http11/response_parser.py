"""Parses the responses on one connection with httptools: head, body framing, and how long the connection may be reused.

The parser is strict. Two framing headers, a folded header, a bare line feed or a bad chunk size end the connection.
`on_body` is the `append` of a list, so no Python frame runs for body bytes. Measured faster than aiohttp's parser
(bench/experiments/http_parsers.py).
"""

from __future__ import annotations

import re

from httptools import HttpParserCallbackError, HttpResponseParser
from multidict import CIMultiDict, istr

_INTERIM_RESPONSES_MAX = 16
_TIMEOUT = re.compile(r"timeout=([0-9]{1,6})")
_NAMES_MAX = 512
NO_HEADERS: CIMultiDict[str] = CIMultiDict()


_NAMES: dict[bytes, istr] = {}
"""Header names received so far. Responses share a few dozen names, and a long stream keeps its headers."""


def _add_name(name: bytes) -> istr:
    key = istr(name.decode("ascii"))
    if len(_NAMES) < _NAMES_MAX:
        _NAMES[name] = key
    return key


class UnacceptableResponse(Exception):
    """A well-formed response that this client does not accept. Raised in the parser's callbacks, which stops it."""


class ResponseParser:
    """The callbacks of httptools' parser, and the response they have built. Call `begin` before each further response.

    `http` is httptools' parser: feed it. `status` is 0 until the head of the final response is complete. `complete` is
    True once the body is. `pieces` are the parts of the body that were not read yet. `ends_with_close`: the body has no
    length and ends with the connection. `keep_seconds` is the time for which the connection may be kept for a further
    request, at most `idle_seconds`; 0 = it must be closed.
    """

    __slots__ = (
        "_idle_seconds",
        "_interim_count",
        "complete",
        "ends_with_close",
        "headers",
        "http",
        "keep_seconds",
        "on_body",
        "pieces",
        "status",
    )

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self.ends_with_close = False
        self.keep_seconds = 0.0
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append
        self.begin()
        self.http = HttpResponseParser(self)

    def begin(self) -> None:
        """Expect the next response."""
        self._interim_count = self.status = 0
        self.complete = False
        self.headers: CIMultiDict[str] = CIMultiDict()

    def close(self) -> None:
        """Free httptools' parser, which holds methods of this object. Nothing may be fed after it."""
        del self.http

    def on_message_begin(self) -> None:
        """Begin a response: the first one, or the one after an interim response."""
        if self.status:
            raise UnacceptableResponse("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers, which follow the body, are dropped."""
        if not self.status:
            try:
                text = value.decode()  # a third of the instructions of a call with arguments
            except UnicodeDecodeError:
                text = value.decode("utf-8", "surrogateescape")
            self.headers.add(_NAMES.get(name) or _add_name(name), text.rstrip(" \t"))

    def on_headers_complete(self) -> None:
        """Check a complete head. An interim response (1xx) is dropped."""
        status = self.http.get_status_code()
        headers = self.headers
        if status < 200:
            self._interim_count += 1
            if status == 101 or self._interim_count > _INTERIM_RESPONSES_MAX:
                raise UnacceptableResponse(
                    "it switched protocols unasked" if status == 101 else "too many interim replies"
                )
            self.headers = CIMultiDict()
            return
        codings = headers.getall("transfer-encoding", ())
        if codings and (len(codings) > 1 or codings[0].lower() != "chunked"):
            # llhttp would take others for a body that ends with the connection.
            raise UnacceptableResponse("its reply has a transfer-encoding other than chunked")
        self.ends_with_close = not codings and "content-length" not in headers and status not in (204, 304)
        self.keep_seconds = self._idle_seconds
        keep_alive = headers.get("keep-alive")
        if keep_alive is not None and (match := _TIMEOUT.search(keep_alive.lower())):
            # A second before the server would close it: no request should cross its FIN on the wire.
            self.keep_seconds = min(self.keep_seconds, max(0.0, int(match[1]) - 1.0))
        self.status = status

    def on_message_complete(self) -> None:
        """End the body. An interim response, which has none, is ignored."""
        if self.status:
            self.complete = True
            if not self.http.should_keep_alive():
                self.keep_seconds = 0.0


def parse_failure(error: BaseException) -> str:
    """Return why a response was rejected: a constant text of llhttp or of this module, never received bytes."""
    if isinstance(error, HttpParserCallbackError):
        error = error.__context__ or error
    if isinstance(error, UnacceptableResponse):
        return str(error)
    return f"its reply is not well-formed HTTP/1.1 ({error})"
