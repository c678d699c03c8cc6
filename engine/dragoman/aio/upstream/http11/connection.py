"""One upstream connection: an `asyncio.Protocol` that sends a request and collects the parts of the response's body.

The reader of the body is woken once per network read, after all of the read was parsed: by a future, or, if the reader
was given a callback (`PushedResponse.on_arrival`), by a plain call.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from httptools import HttpParserError

from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.unread import has_unread
from dragoman.aio.upstream.http11.phases import TRANSITIONS, ConnectionEvent, ConnectionPhase
from dragoman.aio.upstream.http11.response_parser import ResponseParser, UnacceptableResponse, parse_failure
from dragoman.errors import StreamTruncated, UpstreamUnreachable

DRAIN_SECONDS = 1.0
"""Time for a response that was released early to end, so that its connection can be kept."""
_DRAIN_BYTES = 64 * 1024
"""Bytes of such a response that are read for it."""
_OVERHEAD_BYTES = 64 * 1024
"""Bytes of chunk extensions and trailers that are accepted without a byte of body between."""
_JOINED = 64 * 1024
"""Bytes of a body that is copied to its head for one write: cheaper than a second buffer for the kernel."""
_LONG_READ = 64 * 1024
"""Bytes of a read that pauses reading until it is taken: uvloop would read on, up to 32 times in a turn."""
PART = 16 * 1024
"""Bytes of a long read that are parsed at once, if they are in more than `_FEW` chunks. A read of 256 kB may have
12,000 chunks, whose parsing takes some milliseconds."""
_FEW = 32
"""Most chunks in the first part of a long read whose rest is parsed at once."""
_SOCKET = socket.AF_INET, socket.SOCK_STREAM, 0
"""The kind of a socket that is shut down. It is not looked at; without it, Python asks the kernel three times."""
BROKEN = "upstream connection broke before the end of the stream"


class ConnectionOwner(Protocol):
    """The pool of a connection, as the connection uses it."""

    loop: asyncio.AbstractEventLoop
    options: PoolOptions

    def add(self, connection: Connection, /) -> None:
        """Count a connection that is established."""
        ...

    def put_idle(self, connection: Connection, seconds: float, /) -> None:
        """Keep a connection that can be reused within `seconds`."""
        ...

    def discard(self, connection: Connection, /) -> None:
        """Forget a connection that is closed."""
        ...


class Connection(asyncio.Protocol):
    """A connection to an upstream. `Http11Response` reads the body from `parser.pieces`.

    `error` ends the response after these pieces. `unread` counts bytes that were not taken at once. `unparsed` is the
    rest of a long read, which `parse_part` parses when the pieces before it were taken; else None. `resume_reader` is
    the callback set by `on_arrival`; `parked_reader` is the same callback while the reader waits for it, else None.
    """

    __slots__ = (
        "_bytes_left",
        "_drain_timer",
        "_owner",
        "_reading_paused",
        "_socket",
        "_transport",
        "_waiter",
        "_writable",
        "error",
        "parked_reader",
        "parser",
        "phase",
        "resume_reader",
        "unparsed",
        "unread",
    )

    _transport: asyncio.Transport
    parser: ResponseParser

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._socket = -1
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        """Done when the upstream reads again; None while it does."""
        self._drain_timer: asyncio.TimerHandle | None = None
        self._bytes_left = 0
        """Bytes that are still accepted: of the head in HEAD, between two pieces in BODY, of the rest in DRAINING."""
        self._reading_paused = False
        self.phase: ConnectionPhase = "NEW"
        self.unread = 0
        self.unparsed: memoryview | None = None
        self.error: BaseException | None = None
        self.resume_reader: Callable[[], None] | None = None
        self.parked_reader: Callable[[], None] | None = None

    def __repr__(self) -> str:
        parts: list[str] = [self.phase]
        if self.was_connected:
            parts += [f"status={self.parser.status}", f"unread={self.unread}"]
        if self._reading_paused:
            parts.append("reading paused")
        if self.parked_reader is not None:
            parts.append("reader parked")
        return f"<Connection {' '.join(parts)}>"

    @property
    def was_connected(self) -> bool:
        """True once the connection was established; its owner's `discard` is then called when it ends."""
        return self._socket >= 0

    @property
    def unparsed_size(self) -> int:
        """The number of bytes of `unparsed`."""
        return 0 if self.unparsed is None else len(self.unparsed)

    def awaits_head(self) -> bool:
        """Return whether a request is being sent, or was sent, and its response has not begun."""
        return self.phase == "HEAD"

    def _advance(self, event: ConnectionEvent) -> None:
        """Change the phase by `TRANSITIONS`. Raises KeyError for an event that the phase does not expect."""
        self.phase = TRANSITIONS[self.phase][event]

    # --- the request and its response -----------------------------------------------------------------------------

    def is_reusable(self) -> bool:
        """True if a request may be sent. Asks the kernel, as the loop may not have read yet what has arrived.

        An end, a reset or any byte that arrived on an idle connection ends it. The server may still close it while the
        request is on the wire.
        """
        return self.phase == "IDLE" and not self._transport.is_closing() and not has_unread(self._socket)

    def send(self, head: bytes, body: bytes) -> None:
        """Send a request. Call `wait_for_head` after it."""
        if self.phase == "IDLE":
            self.parser.begin()
            self._bytes_left = self._owner.options.head
            self._advance("request_sent")
        elif self.phase != "HEAD":
            self.parser.keep_seconds = 0.0  # the server responded or closed before the request: nothing is sent
            return
        if len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    async def send_piece(self, data: bytes) -> bool:
        """Send a part of a body, and wait until the upstream reads. Return False if no more is to be sent.

        That is so when the response's head has arrived, or the connection has ended.
        """
        if self.phase == "HEAD":
            self._transport.write(data)
            while self._writable is not None and self.phase == "HEAD":
                await self._writable
        return self.phase == "HEAD"

    def send_rest(self, data: bytes) -> None:
        """Send the rest of a body whose response has begun: the upstream may read it before it responds further."""
        if self.phase != "CLOSED":
            self._transport.write(data)

    def cut_short(self) -> None:
        """Keep the connection from being reused, as its request was not sent to the end."""
        self.parser.keep_seconds = 0.0

    async def wait_for_head(self) -> None:
        """Wait for the response's head. A cancellation closes the connection.

        Raises UpstreamUnreachable, or the error given to `fail`.
        """
        try:
            while self.phase == "HEAD" and self.error is None:
                await self.arrival()
        except BaseException:
            self.abort()
            raise
        if self.error is not None and not self.parser.status:
            error, self.error = self.error, None
            raise error

    def arrival(self) -> asyncio.Future[None]:
        """Return a future that is done at the next arrival: body bytes, the end, or an error."""
        self._waiter = waiter = self._owner.loop.create_future()
        return waiter

    def fail(self, error: BaseException) -> None:
        """Close the connection and make the pending read raise `error` at once; unread pieces are dropped."""
        if self.error is None:
            self.error = error
        self.parser.pieces.clear()
        self.abort()
        self._wake()
        if self._writable is not None:
            self.resume_writing()

    def resume_reading(self) -> None:
        """Continue reading from the socket: all pieces were taken. A long read is parsed to its end first."""
        if self.unparsed is not None:
            return
        self.unread = 0
        if self._reading_paused:
            self._reading_paused = False
            if self.phase != "CLOSED":
                self._transport.resume_reading()

    def release(self, *, finish: bool) -> None:
        """End the use of this response. With `finish` its end may be near: read on briefly, to keep the connection."""
        self.resume_reader = self.parked_reader = None
        self.error = None
        self.parser.pieces.clear()
        rest, self.unparsed = self.unparsed, None
        near = rest is None or len(rest) <= _DRAIN_BYTES
        if self.phase == "ENDED":
            self._return_to_pool()
        elif self.phase == "BODY" and finish and near and not self.parser.ends_with_close:
            self._advance("released_early")
            self._bytes_left = _DRAIN_BYTES
            self._drain_timer = self._owner.loop.call_later(DRAIN_SECONDS, self.abort)
            self.resume_reading()
            if rest is not None:
                self.data_received(bytes(rest))
        else:
            self.abort()

    def reset(self) -> bool:
        """Prepare a new connection whose request was cancelled for the pool. Return whether it is reusable."""
        if self.phase == "HEAD" and self._bytes_left == self._owner.options.head:
            self._advance("pooled")
        return self.is_reusable()

    def abort(self) -> None:
        """Close the connection at once."""
        self.unparsed = None
        self._cancel_drain_timer()
        if self.phase != "CLOSED":
            self._advance("close")
            # The transport closes the socket in a later turn: after much other work, if many clients leave at a time.
            # With TLS it may have closed it already: then its descriptor may be another one's.
            sock = self._transport.get_extra_info("socket")
            if sock is not None and (descriptor := sock.fileno()) >= 0:
                _shut_down(descriptor)
            self._transport.abort()

    def _return_to_pool(self) -> None:
        self._cancel_drain_timer()
        transport, seconds = self._transport, self.parser.keep_seconds
        # Unsent bytes: the response came before all of its request was sent, and the rest would be sent for nothing.
        if seconds and not transport.is_closing() and not transport.get_write_buffer_size():
            self._advance("pooled")
            self.resume_reading()
            self._owner.put_idle(self, seconds)
        else:
            self.abort()

    def _cancel_drain_timer(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    # --- callbacks of the event loop ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare for the first response. The owner counts the connection from now on."""
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket").fileno()
        options = self._owner.options
        self.parser = ResponseParser(options.idle_seconds)
        self._bytes_left = options.head
        self._advance("connected")
        self._owner.add(self)

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
            if len(data) > PART:
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
                if unread > self._owner.options.unread or len(data) > _LONG_READ or self.unparsed is not None:
                    self._pause_reading()
        elif self.phase == "BODY":
            self._bytes_left -= len(data)
            if self._bytes_left < 0:
                self._reject_malformed()
                self._wake()
        else:
            self._wake()

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
                limit = self._owner.options.head
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
            if self._writable is not None:
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

    def eof_received(self) -> None:
        """Close this side as well, as the server has closed its own; unsent bytes are dropped."""
        self._end(None)
        self._transport.abort()

    def pause_writing(self) -> None:
        """Let `send_piece` wait, as the upstream does not read."""
        if self._writable is None:
            self._writable = self._owner.loop.create_future()

    def resume_writing(self) -> None:
        """Let `send_piece` continue, also when the response has begun or the connection has ended."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """End the response and leave the pool."""
        self._end(error)
        self.parser.close()
        self._owner.discard(self)

    def _end(self, error: Exception | None) -> None:
        self._parse_rest()
        phase = self.phase
        self._advance("close")
        self._cancel_drain_timer()
        if phase == "HEAD":
            # Nothing may be sent again: the server may have acted on the request.
            reason = str(error) or type(error).__name__ if error is not None else "Server disconnected"
            self.error = UpstreamUnreachable(f"the upstream connection failed: {reason}")
        elif phase == "BODY":
            if self.parser.ends_with_close and error is None and self._was_closed_cleanly():
                self.parser.complete = True
            else:
                self.error = StreamTruncated(BROKEN)
        self._wake()
        if self._writable is not None:
            self.resume_writing()

    def _was_closed_cleanly(self) -> bool:
        """Return whether a body without a length has ended. Under TLS only a close_notify proves it (RFC 8446 §6.1)."""
        tls = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return True
        try:
            return bool(tls.read(1) == b"")
        except ssl.SSLError:
            return False

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


def _shut_down(descriptor: int) -> None:
    """End both directions of an open socket. The transports of uvloop do not offer it."""
    sock = socket.socket(*_SOCKET, fileno=descriptor)
    try:
        with suppress(OSError):  # the peer has ended it already
            sock.shutdown(socket.SHUT_RDWR)
    finally:
        sock.detach()
