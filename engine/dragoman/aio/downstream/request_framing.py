"""Finds where requests end in the bytes of a client's connection.

aiohttp's parser does not say whether it holds bytes of a further request. Bytes that it holds are lost when a reply is
taken from it, so the requests are counted here, by the same framing: a head up to its empty line, and as many bytes of
body as `content-length` says. The count does not depend on how the bytes are segmented.
"""

from __future__ import annotations

import re

_HEAD_END = b"\r\n\r\n"
_FIELD = re.compile(rb"\r\n(content-length|transfer-encoding|upgrade)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_HEAD_MAX = 256 * 1024
"""Bytes of a head that are kept to find its end. aiohttp refuses shorter ones."""
_LENGTH_DIGITS = 15
_EMPTY_LINES = re.compile(rb"[\r\n]+")
"""Skipped before a request, as parsers do."""


class RequestFraming:
    """Counts the requests that have arrived whole.

    `partial` is True while a further request has begun, and for good once the end of a request cannot be known: after a
    chunked body, an upgrade, or a head that aiohttp refuses.
    """

    __slots__ = ("_body", "_head", "_lost", "partial", "whole")

    def __init__(self) -> None:
        self.whole = 0
        self.partial = False
        self._head = bytearray()
        """The part of a head that has arrived."""
        self._body = 0
        """Bytes of a body that have not arrived."""
        self._lost = False

    def feed(self, data: bytes) -> None:
        """Count the bytes of one read."""
        at, size = 0, len(data)
        while at < size and not self._lost:
            if self._body:
                taken = min(self._body, size - at)
                self._body -= taken
                at += taken
                if not self._body:
                    self.whole += 1
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
        """Look for the end of a head that began in an earlier read. Returns how much of `data` belongs to it."""
        head = self._head
        before = len(head)
        head += data
        end = head.find(_HEAD_END, max(0, before - len(_HEAD_END) + 1))
        if end < 0:
            self._lost = len(head) > _HEAD_MAX
            if self._lost:
                head.clear()
            return len(data)
        self._begin_body(bytes(head[:end]), 0, end)
        head.clear()
        return end + len(_HEAD_END) - before

    def _begin_body(self, data: bytes, start: int, end: int) -> None:
        fields = _FIELD.findall(data, start, end)
        if not fields and not data.startswith(b"CONNECT", start):
            self.whole += 1
            self.partial = False
            return
        name, value = fields[0] if len(fields) == 1 else (b"", b"")
        digits = value.rstrip(b" \t")
        if name.lower() == b"content-length" and digits.isdigit() and len(digits) <= _LENGTH_DIGITS:
            self._body = int(digits)
            if not self._body:
                self.whole += 1
                self.partial = False
        else:
            self._lost = True
