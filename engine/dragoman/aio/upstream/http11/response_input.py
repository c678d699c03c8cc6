"""The input of an upstream connection: each network read is parsed, and its parts of the response's body are collected.

The reader of the body is woken once per network read, after all of the read was parsed: by a future, or, if the reader
was given a callback (`PushedResponse.on_arrival`), by a plain call.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable

from httptools import HttpParserError

from dragoman.aio.batch_slices import SLICE, SMALL
from dragoman.aio.long_work import long_work
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.phases import TRANSITIONS, ConnectionEvent, ConnectionPhase
from dragoman.aio.upstream.http11.response_parser import ResponseParser, UnacceptableResponse, parse_failure
from dragoman.errors import StreamTruncated, UpstreamUnreachable

_OVERHEAD_BYTES = 64 * 1024
"""Bytes of chunk extensions and trailers that are accepted without a byte of body between."""
_LONG_READ = 64 * 1024
"""Bytes of a read that pauses reading until it is taken: uvloop would read on, up to 32 times in a turn."""
PART = 16 * 1024
"""Bytes of a long read that are parsed at once, if they are in more than `_FEW` chunks. A read of 256 kB may have
12,000 chunks, whose parsing takes some milliseconds."""
_FEW = 32
"""Most chunks in the first part of a long read whose rest is parsed at once."""
BROKEN = "upstream connection broke before the end of the stream"


class ResponseInput(asyncio.Protocol):
    """The received part of a response. `Http11Response` reads the body from `parser.pieces`.

    `error` ends the response after these pieces. `unread` counts bytes that were not taken at once. `unparsed` is the
    rest of a long read, which `parse_part` parses when the pieces before it were taken; else None. `parked_reader` is
    the callback of a reader that waits, else None.
    """

    __slots__ = (
        "_bytes_left",
        "_in_a_row",
        "_loop",
        "_options",
        "_reading_paused",
        "_resumed_in",
        "_transport",
        "_waiter",
        "error",
        "parked_reader",
        "parser",
        "phase",
        "unparsed",
        "unread",
    )

    _transport: asyncio.Transport
    parser: ResponseParser

    def __init__(self, loop: asyncio.AbstractEventLoop, options: PoolOptions) -> None:
        self._loop = loop
        self._options = options
        self._waiter: asyncio.Future[None] | None = None
        self._bytes_left = 0
        """Bytes that are still accepted: of the head in HEAD, between two pieces in BODY, of the rest in DRAINING."""
        self._reading_paused = False
        self._resumed_in = 0
        """The turn of the long work in which reading was continued."""
        self._in_a_row = 0
        """Bytes that had arrived each time when reading was continued, since one time when none had."""
        self.phase: ConnectionPhase = "NEW"
        self.unread = 0
        self.unparsed: memoryview | None = None
        self.error: BaseException | None = None
        self.parked_reader: Callable[[], None] | None = None

    def _advance(self, event: ConnectionEvent) -> None:
        """Change the phase by `TRANSITIONS`. Raises KeyError for an event that the phase does not expect."""
        self.phase = TRANSITIONS[self.phase][event]

    @property
    def unparsed_size(self) -> int:
        """The number of bytes of `unparsed`."""
        return 0 if self.unparsed is None else len(self.unparsed)

    @property
    def left(self) -> int:
        """The number of bytes of `unparsed`, or of what was read in a row if that is more: then the stream is fast."""
        return max(self.unparsed_size, self._in_a_row)

    def arrival(self) -> asyncio.Future[None]:
        """Return a future that is done at the next arrival: body bytes, the end, or an error."""
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _wake(self) -> None:
        """Resume the reader, or `wait_for_head`."""
        resume = self.parked_reader
        if resume is not None:
            self.parked_reader = None
            resume()
            return
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def resume_reading(self) -> None:
        """Continue reading from the socket: all pieces were taken. A long read is parsed to its end first."""
        if self.unparsed is not None:
            return
        self.unread = 0
        if self._reading_paused:
            self._reading_paused = False
            if self.phase != "CLOSED":
                self._resumed_in = long_work(self._loop).turns
                self._transport.resume_reading()

    # --- callback of the event loop --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Process one network read."""
        if self.unparsed is not None:  # data that arrives although reading is paused
            self._parse_rest()
        phase = self.phase  # what follows may change it
        if phase != "BODY":
            self._received_outside_body(data)
            return
        parser = self.parser
        try:
            if len(data) <= SMALL:
                parser.http.feed_data(data)
            elif not self._has_room(len(data)):
                self._keep(data)
                return
            elif len(data) > PART:
                self._parse_long(data)
            else:
                parser.http.feed_data(data)
        except HttpParserError:
            self._reject_malformed()
        if parser.complete:
            self._end_body()
        if parser.pieces:
            self._bytes_left = _OVERHEAD_BYTES
            resume = self.parked_reader
            if resume is not None:
                self.parked_reader = None
                resume()
            else:
                self._wake()
            if parser.pieces or self.unparsed is not None:
                # Not taken at once: the reader waits for a future, writes to its client, or takes the read in slices.
                self.unread = unread = self.unread + len(data)
                if unread > self._options.unread or len(data) > _LONG_READ or self.unparsed is not None:
                    self._pause_reading()
        elif self.phase == "BODY":
            self._bytes_left -= len(data)
            if self._bytes_left < 0:
                self._reject_malformed()
                self._wake()
        else:
            self._wake()

    def _has_room(self, size: int) -> bool:
        """Return whether a read may be parsed at once, and count it if so: its first slice."""
        return long_work(self._loop).has_room(min(size, SLICE))

    def _keep(self, data: bytes) -> None:
        """Keep a read until the reader has a turn for it, as others have this one. Nothing more is read until then."""
        if long_work(self._loop).turns > self._resumed_in + 1:
            self._in_a_row = 0
        self._in_a_row += len(data)
        self.unparsed = memoryview(data)
        self.unread += len(data)
        self._wake()
        self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._reading_paused and self.phase == "BODY":
            self._reading_paused = True
            self._transport.pause_reading()

    def _parse_long(self, data: bytes) -> None:
        """Parse a long read, or a part of it and keep the rest. Raises HttpParserError."""
        whole = memoryview(data)
        self.parser.http.feed_data(whole[:PART])
        if len(self.parser.pieces) > _FEW:
            self.unparsed = whole[PART:]
        else:
            self.parser.http.feed_data(whole[PART:])

    def parse_part(self) -> None:
        """Parse the next part of a long read, if there is any."""
        rest = self.unparsed
        if rest is None:
            return
        self.unparsed = rest[PART:] if len(rest) > PART else None
        try:
            self.parser.http.feed_data(rest[:PART])
        except HttpParserError:
            self._reject_malformed()
        if self.parser.complete:
            self._end_body()
        elif self.parser.pieces:
            self._bytes_left = _OVERHEAD_BYTES
        else:
            self._bytes_left -= PART
            if self._bytes_left < 0:
                self._reject_malformed()

    def parse_next(self) -> None:
        """Parse the next part of a long read, for a reader that has taken all pieces; after the last, read on."""
        self.parse_part()
        if not self.parser.pieces:
            self.resume_reading()

    def _parse_rest(self) -> None:
        """Parse all parts of a long read that are left."""
        while self.unparsed is not None:
            self.parse_part()

    def _end_body(self) -> None:
        """The body is complete. What was received after it is no response, so the connection is not used again."""
        if self.unparsed is not None:
            self.unparsed = None
            self.parser.keep_seconds = 0.0
        if self.phase == "BODY":
            self._advance("body_complete")

    def _received_outside_body(self, data: bytes) -> None:
        if self.phase == "HEAD":
            self._received_head(data)
        elif self.phase == "DRAINING":
            self._bytes_left -= len(data)
            try:
                self.parser.http.feed_data(data)
            except HttpParserError:
                self._bytes_left = -1
            self.parser.pieces.clear()
            if self._bytes_left < 0:
                self.abort()
            elif self.parser.complete:
                self._return_to_pool()
        else:
            # Unexpected bytes: they would be taken for the response to the next request.
            self.parser.keep_seconds = 0.0
            if self.phase == "IDLE":
                self.abort()

    def _received_head(self, data: bytes) -> None:
        parser, accepted = self.parser, self._bytes_left
        self._bytes_left -= len(data)
        try:
            if len(data) > (part := min(PART, accepted)):
                parser.http.feed_data(data[:part])
                data, accepted = data[part:], accepted - part
                if not parser.status and len(data) > accepted:
                    parser.http.feed_data(data[:accepted])
                    data = data[accepted:]
            if self._bytes_left < 0 and not parser.status:
                limit = self._options.head
                raise UnacceptableResponse(f"the head of its reply exceeds the limit connections.head = {limit}")
            if len(data) > PART:
                self._parse_long(data)
            else:
                parser.http.feed_data(data)
        except (HttpParserError, UnacceptableResponse) as error:
            if parser.status:
                self._reject_malformed()
            else:
                self.error = UpstreamUnreachable(f"the upstream connection failed: {parse_failure(error)}")
                self.abort()
        if self.phase == "HEAD" and parser.status:
            self._advance("head_complete")
            if parser.complete:
                self._end_body()
        if self.phase != "HEAD":
            self._bytes_left = _OVERHEAD_BYTES
            self._wake()
            self.resume_writing()
            if parser.pieces or self.unparsed is not None:
                self.unread = len(data)
                if self.unparsed is not None:
                    self._pause_reading()

    def _reject_malformed(self) -> None:
        """Close the connection in a malformed body; after a complete one, only do not reuse it."""
        self.parser.keep_seconds = 0.0
        self.unparsed = None
        if not self.parser.complete:
            self.error = StreamTruncated(BROKEN)
            self.abort()

    # --- methods of a connection -------------------------------------------------------------------------------------

    @abstractmethod
    def abort(self) -> None:
        """Close the connection at once."""

    @abstractmethod
    def resume_writing(self) -> None:
        """Let the sender of a request continue: the response has begun."""

    @abstractmethod
    def _return_to_pool(self) -> None:
        """Keep the connection for another request, or close it."""
