"""Parses long network reads of aiohttp's client in parts, each in its own turn of the event loop.

A read has up to 256 KiB. In chunks of 20 bytes, as fast upstreams send them, aiohttp's parser takes 3 ms for it, in
which all other streams wait.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from dragoman.aio.long_work import long_work

PART: Final = 4 * 1024
"""Bytes that are parsed in one turn."""
_FEW: Final = 8
"""Most line ends (`CRLF`) in the first part of a long read that is parsed at once. A chunk has two of them."""


class PartedResponseHandler(ResponseHandler):
    """Reads the responses of one connection. Reading is paused while a part of a read is not parsed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._unparsed = b""
        """A long read, of which the bytes from `_parsed` on are not parsed."""
        self._parsed = 0
        self._scheduled = False

    @property
    def should_close(self) -> bool:
        """True if the connection cannot be used for another request."""
        return bool(self._unparsed) or super().should_close

    def data_received(self, data: bytes) -> None:
        """Parse a read, or the first part of a long one. aiohttp calls it without data to continue a paused parser."""
        if self._unparsed and data:
            self._unparsed += data  # it had arrived when reading was paused
        elif len(data) <= PART or data.count(b"\r\n", 0, PART) <= _FEW:
            super().data_received(data)
        else:
            self._unparsed, self._parsed = data, 0
            self._pause_reading_for_buffer()
            self._parse_part()

    def set_response_params(self, **params: Any) -> None:
        """Expect the response to a further request. The body of the last one is complete, but may not be read yet."""
        self._payload = None  # aiohttp would set the errors of this response as errors of that body
        super().set_response_params(**params)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Continue to parse, after the reader of the body has taken what was too much."""
        super().resume_reading(resume_parser)
        self._schedule()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Parse what was received, then end."""
        rest, self._unparsed = self._unparsed[self._parsed :], b""
        if rest:
            super().data_received(rest)
        super().connection_lost(exc)

    def _parse_part(self) -> None:
        part = self._unparsed[self._parsed : self._parsed + PART]
        self._parsed += PART
        if self._parsed >= len(self._unparsed):
            self._unparsed = b""
        super().data_received(part)
        if self._unparsed:
            self._schedule()
        elif self._buffer_paused:
            self._resume_reading_for_buffer()

    def _schedule(self) -> None:
        """Parse the next part in a later turn, unless the reader of the body is behind."""
        if self._unparsed and not self._scheduled and not self._reading_paused:
            self._scheduled = True
            long_work(self._loop).add(self._continue, len(self._unparsed) - self._parsed)

    def _continue(self) -> None:
        self._scheduled = False
        if self.transport is None:
            self._unparsed = b""
        elif self._unparsed and not self._reading_paused:
            self._parse_part()


def parse_in_parts(connector: aiohttp.TCPConnector) -> None:
    """Let the connections of a connector parse long reads in parts. Must be called inside a running event loop.

    aiohttp has no public way to replace the protocol of its connections.
    """
    make: Any = partial(PartedResponseHandler, loop=asyncio.get_running_loop())
    connector._factory = make
