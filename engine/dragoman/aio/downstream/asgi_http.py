"""One HTTP request of an ASGI server as bytes of HTTP/1.1, and the bytes of its response as ASGI messages.

The server has parsed the request. It is framed again here, by the length of the body or in chunks, so that no header of
the client decides where the request ends. Headers that concern the client's connection only are dropped on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import quote

from aiohttp.http import HttpProcessingError
from httptools import HttpParserUpgrade, HttpResponseParser

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CONNECTION_HEADERS = frozenset(
    [
        b"connection",
        b"content-length",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ]
)
"""Headers of a request that are not passed on (RFC 9110 §7.6.1). The length of the body is written again."""
SERVER_HEADERS = frozenset([b"connection", b"date", b"keep-alive", b"server", b"transfer-encoding", b"upgrade"])
"""Headers of a response that the ASGI server adds itself."""
SWITCHING_PROTOCOLS = 101
"""The status of an accepted WebSocket."""
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_QUERY = re.compile(rb"[!-~\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_UNQUOTED = "/:@!$&'()*+,;=-._~"
_WITHOUT_BODY = ("GET", "HEAD")


class BadScope(HttpProcessingError):
    """A request that an ASGI server should not have passed on, as it cannot be written as HTTP/1.1."""

    code = 400


def target(scope: Scope) -> bytes:
    """Return path and query, without the path of the application that this one is mounted in. Raises BadScope."""
    path, root, query = scope["path"], scope.get("root_path", ""), scope.get("query_string", b"")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        path = path[len(root) :]
    if not _QUERY.fullmatch(query):
        raise BadScope(message="the query has a space or a control character")
    quoted = quote(path or "/", _UNQUOTED, errors="replace").encode()
    return b"%b?%b" % (quoted, query) if query else quoted


def encode_head(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a request. Raises BadScope if a part of it has a character that could end it."""
    lines, has_host = [b"%b %b HTTP/1.1" % (method.encode(), target)], False
    for name, value in headers:
        has_host = has_host or name == b"host"
        if not _TOKEN.fullmatch(name):
            raise BadScope(message="a header has a name with a character that is not allowed")
        lines.append(b"%b: %b" % (name, value))
    if not has_host:
        lines.append(b"host: ")  # a request of HTTP/1.0 may have none
    head = b"\r\n".join([*lines, b"", b""])
    ends = len(lines) + 1
    if not _TOKEN.fullmatch(method.encode()) or head.count(b"\r") != ends or head.count(b"\n") != ends or b"\0" in head:
        raise BadScope(message="the method or a header has a control character")
    return head


class HttpRequest:
    """The client's side of a request. `head` are its first bytes; `complete` is True once the body was received."""

    def __init__(self, scope: Scope) -> None:
        method = scope["method"]
        self._left: int | None = None
        """Bytes of the body that are still to come; None if it is chunked."""
        headers = [(b"connection", b"close")]
        length, chunked = None, scope.get("http_version", "1.1")[:1] != "1" and method not in _WITHOUT_BODY
        for name, value in scope["headers"]:
            name = name.lower()
            if name == b"content-length":
                if not _LENGTH.fullmatch(value) or length not in (None, value):
                    raise BadScope(message="the content-length is not one number")
                length = value
            elif name == b"transfer-encoding":
                chunked = True
            elif name not in CONNECTION_HEADERS and not (name == b"expect" and value.lower() == b"100-continue"):
                headers.append((name, value))
        if length is not None:
            self._left = int(length)
            headers.append((b"content-length", length))
        elif chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        else:
            self._left = 0
        self.complete = self._left == 0
        self.head = encode_head(method, target(scope), headers)

    def receive(self, message: Message) -> bytes:
        """Return the bytes of a part of the body.

        Raises ConnectionError if the client has disconnected, and BadScope if the body is too short.
        """
        if message["type"] != "http.request":
            raise ConnectionResetError("the client hung up")
        body, more = message.get("body", b""), message.get("more_body", False)
        self.complete = not more
        if self._left is None:
            return (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        body = body[: self._left]
        self._left -= len(body)
        if self._left and not more:
            # uvicorn drops the body of a request with an unknown `upgrade`, such as h2c.
            raise BadScope(message="the body is shorter than its content-length; send no upgrade header")
        return bytes(body)


class HttpResponse:
    """Makes ASGI messages of the bytes of a response to `method`.

    Each chunk is one message. `status` is 0 until the response has begun, and `complete` is True once it has ended. If
    `closing` is set before, it closes the client's connection. `upgraded` are the bytes after a 101.
    """

    def __init__(self, method: str) -> None:
        self.closing = self.complete = False
        self.upgraded = b""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._without_body = method == "HEAD"
        self._messages: list[Message] = []
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes. The last one of a response has `more_body` True, like all."""
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self.upgraded = data[upgrade.args[0] :]
        messages, self._messages = self._messages, []
        return messages

    def close(self) -> None:
        """Free the parser, which holds methods of this object."""
        self._parser = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        name = name.lower()
        if name not in SERVER_HEADERS:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin the response. An interim one is dropped: the ASGI server sends its own."""
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200 and status != SWITCHING_PROTOCOLS:
            self.headers = []
            return
        self.status = status
        self.complete = self._without_body
        if self.closing:
            self.headers.append((b"connection", b"close"))
        self._messages.append({"type": "http.response.start", "status": status, "headers": self.headers})

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._messages.append({"type": "http.response.body", "body": body, "more_body": True})

    def on_message_complete(self) -> None:
        """End the response, if it is not an interim one."""
        self.complete = self.status != 0


class HttpExchange:
    """One request and its response. The connection gets `head`, then the bytes that `receive` returns.

    `ended` is True once the last message was returned. Raises BadScope.
    """

    answer = b""
    """Bytes that the connection gets in return: none."""

    def __init__(self, scope: Scope) -> None:
        self._request = HttpRequest(scope)
        self._response = HttpResponse(scope["method"])
        self._may_close = scope.get("http_version", "1.1")[:1] == "1"
        self.head = self._request.head
        self.ended = False

    @property
    def started(self) -> bool:
        """True once the response has begun."""
        return self._response.status != 0

    def receive(self, message: Message) -> bytes:
        """Return the bytes of a message of the client. Raises ConnectionError and BadScope."""
        return self._request.receive(message)

    def send(self, data: bytes) -> list[Message]:
        """Return the messages that bytes of the connection complete."""
        response, request = self._response, self._request
        response.closing = self._may_close and not request.complete
        messages = response.feed(data)
        if response.complete and request.complete and not self.ended:
            self.ended = True
            if messages and messages[-1]["type"] == "http.response.body":
                messages[-1]["more_body"] = False
            else:
                messages.append({"type": "http.response.body", "body": b"", "more_body": False})
        return messages

    def finish(self) -> list[Message]:
        """Return the last message, if the connection has ended after a complete response."""
        ends = self._response.complete and not self.ended
        return [{"type": "http.response.body", "body": b"", "more_body": False}] if ends else []

    def close(self) -> None:
        """Free the parser."""
        self._response.close()
