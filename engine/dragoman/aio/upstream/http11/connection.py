"""One upstream connection: an `asyncio.Protocol` that sends a request, and returns to its pool after the response."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.unread import has_unread
from dragoman.aio.upstream.http11.response_input import BROKEN, ResponseInput
from dragoman.aio.upstream.http11.response_parser import ResponseParser
from dragoman.errors import StreamTruncated, UpstreamUnreachable

DRAIN_SECONDS = 1.0
"""Time for a response that was released early to end, so that its connection can be kept."""
_DRAIN_BYTES = 64 * 1024
"""Bytes of such a response that are read for it."""
_JOINED = 64 * 1024
"""Bytes of a body that is copied to its head for one write: cheaper than a second buffer for the kernel."""
_SOCKET = socket.AF_INET, socket.SOCK_STREAM, 0
"""The kind of a socket that is shut down. It is not looked at; without it, Python asks the kernel three times."""


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


class Connection(ResponseInput):
    """A connection to an upstream. `resume_reader` is the callback set by `on_arrival`."""

    __slots__ = ("_drain_timer", "_owner", "_socket", "_writable", "resume_reader")

    def __init__(self, owner: ConnectionOwner) -> None:
        super().__init__(owner.loop, owner.options)
        self._owner = owner
        self._socket = -1
        self._writable: asyncio.Future[None] | None = None
        """Done when the upstream reads again; None while it does."""
        self._drain_timer: asyncio.TimerHandle | None = None
        self.resume_reader: Callable[[], None] | None = None

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

    def awaits_head(self) -> bool:
        """Return whether a request is being sent, or was sent, and its response has not begun."""
        return self.phase == "HEAD"

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
            self._bytes_left = self._options.head
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

    def fail(self, error: BaseException) -> None:
        """Close the connection and make the pending read raise `error` at once; unread pieces are dropped."""
        if self.error is None:
            self.error = error
        self.parser.pieces.clear()
        self.abort()
        self._wake()
        self.resume_writing()

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
            self._drain_timer = self._loop.call_later(DRAIN_SECONDS, self.abort)
            self.resume_reading()
            if rest is not None:
                self.data_received(bytes(rest))
        else:
            self.abort()

    def reset(self) -> bool:
        """Prepare a new connection whose request was cancelled for the pool. Return whether it is reusable."""
        if self.phase == "HEAD" and self._bytes_left == self._options.head:
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
        self.parser = ResponseParser(self._options.idle_seconds)
        self._bytes_left = self._options.head
        self._advance("connected")
        self._owner.add(self)

    def eof_received(self) -> None:
        """Close this side as well, as the server has closed its own; unsent bytes are dropped."""
        self._end(None)
        self._transport.abort()

    def pause_writing(self) -> None:
        """Let `send_piece` wait, as the upstream does not read."""
        if self._writable is None:
            self._writable = self._loop.create_future()

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


def _shut_down(descriptor: int) -> None:
    """End both directions of an open socket. The transports of uvloop do not offer it."""
    sock = socket.socket(*_SOCKET, fileno=descriptor)
    try:
        with suppress(OSError):  # the peer has ended it already
            sock.shutdown(socket.SHUT_RDWR)
    finally:
        sock.detach()
