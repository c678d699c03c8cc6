"""Finds the ends of requests in the bytes of a client's connection.

aiohttp's parser does not reveal whether it holds bytes of a further request. Such bytes are lost when the connection is
hijacked, so the requests are counted here, by the same framing: a head up to its empty line, then a body of
`content-length` bytes. The count does not depend on how the bytes are segmented.
"""

from __future__ import annotations

import re

_HEAD_END = b"\r\n\r\n"
_FIELD = re.compile(rb"\r\n(content-length|transfer-encoding|upgrade)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_HEAD_MAX = 256 * 1024
"""Bytes of a head that are kept to find its end. aiohttp rejects shorter heads already."""
_LENGTH_DIGITS = 15
"""Digits of a `content-length` that is accepted."""
_EMPTY_LINES = re.compile(rb"[\r\n]+")
"""Line ends before a request, which parsers skip (RFC 9112 §2.2)."""


class RequestFraming:
    """Counts complete requests.

    `partial` is True while a further request has begun, and permanently once the end of a request is unknown: after
    a chunked body, an upgrade, or a head that aiohttp rejects.
    """

    __slots__ = ("_body_left", "_head", "_unknown_end", "complete", "partial")

    def __init__(self) -> None:
        self.complete = 0
        self.partial = False
        self._head = bytearray()
        """The received part of an incomplete head."""
        self._body_left = 0
        """Bytes of a body that were not received yet."""
        self._unknown_end = False

    def feed(self, data: bytes) -> None:
        """Process the bytes of one network read."""
        at, size = 0, len(data)
        while at < size and not self._unknown_end:
            if self._body_left:
                received = min(self._body_left, size - at)
                self._body_left -= received
                at += received
                if not self._body_left:
                    self.complete += 1
                    self.partial = False
            elif self._head:
                at = self._continue_head(data)
            elif data[at] in b"\r\n" and (blank := _EMPTY_LINES.match(data, at)) is not None:
                at = blank.end()
            else:
                self.partial = True
                end = data.find(_HEAD_END, at)
                if end < 0:
                    self._head += data[at:]
                    return
                self._begin_body(data, at, end)
                at = end + len(_HEAD_END)

    def _continue_head(self, data: bytes) -> int:
        """Find the end of a head that began in an earlier read. Returns how many bytes of `data` belong to it."""
        head = self._head
        before = len(head)
        head += data
        end = head.find(_HEAD_END, max(0, before - len(_HEAD_END) + 1))
        if end < 0:
            self._unknown_end = len(head) > _HEAD_MAX
            if self._unknown_end:
                head.clear()
            return len(data)
        self._begin_body(bytes(head[:end]), 0, end)
        head.clear()
        return end + len(_HEAD_END) - before

    def _begin_body(self, data: bytes, start: int, end: int) -> None:
        """Read the length of the body from the head `data[start:end]`."""
        fields = _FIELD.findall(data, start, end)
        if not fields and not data.startswith(b"CONNECT", start):
            self.complete += 1
            self.partial = False
            return
        name, value = fields[0] if len(fields) == 1 else (b"", b"")
        digits = value.rstrip(b" \t")
        if name.lower() == b"content-length" and digits.isdigit() and len(digits) <= _LENGTH_DIGITS:
            self._body_left = int(digits)
            if not self._body_left:
                self.complete += 1
                self.partial = False
        else:
            self._unknown_end = True
