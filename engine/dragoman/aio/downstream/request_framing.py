"""Finds the ends of requests in the bytes of a client's connection.

aiohttp's parser does not reveal whether it holds bytes of a further request. Such bytes are lost when the connection is
hijacked, so the requests are counted here: each is a head up to its empty line, then a body whose length is in the head
that aiohttp has parsed. The count does not depend on how the bytes are segmented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from aiohttp import hdrs
from aiohttp.http import RawRequestMessage

from dragoman.aio.downstream.aiohttp_internals import Message

_HEAD_END = b"\r\n\r\n"
_LENGTH_DIGITS = 15
"""Digits of a `content-length` that is accepted."""
_EMPTY_LINES = re.compile(rb"[\r\n]+")
"""Line ends before a request, which parsers skip (RFC 9112 §2.2)."""


class RequestFraming:
    """Counts complete requests.

    `partial` is True while a further request has begun, and permanently once the end of a request is unknown: after
    a chunked body, an upgrade, or a head that aiohttp rejects.
    """

    __slots__ = ("_body_left", "_head_tail", "_unknown_end", "complete", "partial")

    def __init__(self) -> None:
        self.complete = 0
        self.partial = False
        self._head_tail = b""
        """The last received bytes of an incomplete head, which may be the beginning of its empty line."""
        self._body_left = 0
        """Bytes of a body that were not received yet."""
        self._unknown_end = False

    def feed_whole(self, data: bytes, head: RawRequestMessage) -> bool:
        """Count a request if `data` is exactly that one, as nearly every read is. Return False if `feed` has to."""
        if self.partial or data[0] in b"\r\n" or head.chunked or head.upgrade or head.method == "CONNECT":
            return False
        digits = head.headers.get(hdrs.CONTENT_LENGTH, "0")
        if not digits.isdigit() or len(digits) > _LENGTH_DIGITS:
            return False
        if data.find(_HEAD_END) + len(_HEAD_END) + int(digits) != len(data):
            return False
        self.complete += 1
        return True

    def feed(self, data: bytes, heads: Iterable[Message]) -> None:
        """Process the bytes of one network read. `heads` are those that aiohttp parsed from it, in order."""
        at, size, parsed = 0, len(data), iter(heads)
        while at < size and not self._unknown_end:
            if self._body_left:
                received = min(self._body_left, size - at)
                self._body_left -= received
                at += received
                if not self._body_left:
                    self.complete += 1
                    self.partial = False
            elif not self._head_tail and data[at] in b"\r\n" and (blank := _EMPTY_LINES.match(data, at)) is not None:
                at = blank.end()
            else:
                at = self._find_head_end(data, at, parsed)

    def _find_head_end(self, data: bytes, at: int, parsed: Iterator[Message]) -> int:
        """Find the end of the head that continues or begins at `at`. Return the position of the first byte after it."""
        self.partial = True
        before = self._head_tail
        end = (before + data).find(_HEAD_END) if before else data.find(_HEAD_END, at)
        if end < 0:
            self._head_tail = (before + data[at:])[1 - len(_HEAD_END) :]
            return len(data)
        self._head_tail = b""
        self._begin_body(next(parsed, None))
        return end + len(_HEAD_END) - len(before)

    def _begin_body(self, head: Message | None) -> None:
        """Take the length of the body from its head; None if aiohttp has not parsed it."""
        if type(head) is not RawRequestMessage or head.chunked or head.upgrade or head.method == "CONNECT":
            self._unknown_end = True
            return
        digits = head.headers.get(hdrs.CONTENT_LENGTH, "0")
        if not digits.isdigit() or len(digits) > _LENGTH_DIGITS:
            self._unknown_end = True
            return
        self._body_left = int(digits)
        if not self._body_left:
            self.complete += 1
            self.partial = False
