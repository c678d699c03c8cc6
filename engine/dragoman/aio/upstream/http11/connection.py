"""One connection: an `asyncio.Protocol` that sends a request and hands the reply's body on as it is parsed.

Whoever reads is woken once per network read, after all of it was parsed: by a future, or, if it gave a `step`, by a
plain call.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from httptools import HttpParserError, HttpResponseParser

from dragoman.aio.upstream.http11.response_parser import ConnectionPhase, ResponseParser, UnacceptableResponse, reason
from dragoman.errors import StreamTruncated, UpstreamUnreachable

if TYPE_CHECKING:
    from dragoman.aio.upstream.http11.pool import Pool

FINISH_SECONDS = 1.0
"""How long a reply that is read no further may take to end, for its connection to be kept."""
_FINISH_BYTES = 64 * 1024
_BARREN_BYTES = 64 * 1024
"""Of chunk extensions and trailers without a byte of body between."""
_JOINED = 64 * 1024
"""A body up to this size is copied behind its head: cheaper than a second buffer for the kernel."""
_BULK = 64 * 1024
"""A read longer than this that is not taken at once is the last until it is: uvloop would go on, up to 32 in a turn."""
BROKEN = "upstream connection broke before the end of the stream"


_IDLE, _HEAD, _BODY, _ENDED, _FINISHING, _CLOSED = ConnectionPhase


class Connection(ResponseParser, asyncio.Protocol):
    """See the module. `pieces`, `ended`, `error`, `parked` and `step` are for the answer that reads (`answer`)."""

    __slots__ = ("_paused", "_pool", "_socket", "_timer", "_transport", "_waiter", "error", "parked", "step", "unread")

    _transport: asyncio.Transport

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool.connections)
        self._pool = pool
        self._socket = -1
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self.unread = 0
        self.error: BaseException | None = None
        self.step: Callable[[], None] | None = None
        self.parked: Callable[[], None] | None = None

    @property
    def made(self) -> bool:
        """Whether it was ever connected, and so will be `gone`."""
        return self._socket >= 0

    # --- asking ---------------------------------------------------------------------------------------------------

    def is_reusable(self) -> bool:
        """Whether a request may be sent: asked of the kernel, as the loop may not yet have read what came.

        An end, a reset or any byte that came while nothing was asked is the end of the connection. What remains of the
        race with a server that closes is what is on the wire at this moment.
        """
        return self._phase is _IDLE and not self._transport.is_closing() and not _readable(self._socket)

    def send(self, head: bytes, body: bytes) -> None:
        """Send a request. `answered` follows."""
        if self._phase is _IDLE:
            self.expect()
        elif self._phase is not _HEAD:
            self._keep = 0.0  # answered or left, unasked: `answered` tells which
            return
        if len(body) <= _JOINED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    async def wait_for_head(self) -> None:
        """Wait for the reply's head. Raises UpstreamUnreachable, or what `fail` was given. Cut if that is cancelled."""
        try:
            while self._phase is _HEAD and self.error is None:
                await self.arrival()
        except BaseException:
            self.abort()
            raise
        if self.error is not None and not self.status:
            error, self.error = self.error, None
            raise error

    def arrival(self) -> asyncio.Future[None]:
        """A future of the next arrival: bytes, the end, or an error."""
        self._waiter = waiter = self._pool.loop.create_future()
        return waiter

    def fail(self, error: BaseException) -> None:
        """Make the pending read raise `error`, now and not behind what came before. The upstream is cut."""
        if self.error is None:
            self.error = error
        self.pieces.clear()
        self.abort()
        self._wake()

    def resume_reading(self) -> None:
        """The pieces were taken after more had come than was read."""
        self.unread = 0
        if self._paused:
            self._paused = False
            if self._phase is not _CLOSED:
                self._transport.resume_reading()

    def release(self, *, finish: bool) -> None:
        """Nobody reads this reply any further. With `finish` its end may be near, and the connection worth keeping."""
        self.step = self.parked = None
        self.error = None
        self.pieces.clear()
        if self._phase is _ENDED:
            self._give_back()
        elif self._phase is _BODY and finish and not self._until_close:
            self._phase = _FINISHING
            self._room = _FINISH_BYTES
            self._timer = self._pool.loop.call_later(FINISH_SECONDS, self.abort)
            self.resume_reading()
        else:
            self.abort()

    def reset(self) -> bool:
        """Make a connection that nobody wanted in the end ready for the pool. False if it is not fit for it."""
        if self._phase is _HEAD and self._room == self._connections.head:
            self._phase = _IDLE
        return self.is_reusable()

    def abort(self) -> None:
        """Close at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._phase is not _CLOSED:
            self._phase = _CLOSED
            self._transport.abort()

    def _give_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        transport = self._transport
        # A reply that came before its request was sent whole: the rest would be sent for nothing.
        if self._keep and not transport.is_closing() and not transport.get_write_buffer_size():
            self._phase = _IDLE
            self.resume_reading()
            self._pool.put_idle(self, self._keep)
        else:
            self.abort()

    # --- what the loop tells --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pool counts it from now on."""
        self._transport = cast("asyncio.Transport", transport)
        self._socket = transport.get_extra_info("socket").fileno()
        self._parser = HttpResponseParser(self)
        self.expect()
        self._pool.made(self)

    def data_received(self, data: bytes) -> None:
        """One network read."""
        if self._phase is not _BODY:
            self._received_outside_a_body(data)
            return
        try:
            self._parser.feed_data(data)  # type: ignore[union-attr]
        except HttpParserError:
            self._break()
        if self.pieces:
            self._room = _BARREN_BYTES
            step = self.parked
            if step is not None:
                self.parked = None
                step()
            else:
                self._wake()
            if self.pieces:
                # Not taken at once: by a reader that awaits it, is behind, or takes it in slices.
                self.unread = unread = self.unread + len(data)
                full = unread > self._connections.unread or len(data) > _BULK
                if full and not self._paused and self._phase is _BODY:
                    self._paused = True
                    self._transport.pause_reading()
        elif self._phase is _BODY:
            self._room -= len(data)
            if self._room < 0:
                self._break()
                self._wake()
        else:
            self._wake()

    def _received_outside_a_body(self, data: bytes) -> None:
        if self._phase is _HEAD:
            self._received_head(data)
        elif self._phase is _FINISHING:
            self._room -= len(data)
            try:
                self._parser.feed_data(data)  # type: ignore[union-attr]
            except HttpParserError:
                self._room = -1
            self.pieces.clear()
            if self._room < 0:
                self.abort()
            elif self.ended:
                self._give_back()
        else:
            # Bytes that nobody asked for: they would be taken for the reply to the next request.
            self._keep = 0.0
            if self._phase is _IDLE:
                self.abort()

    def _received_head(self, data: bytes) -> None:
        feed, room = self._parser.feed_data, self._room  # type: ignore[union-attr]
        self._room -= len(data)
        try:
            if self._room < 0:
                feed(data[:room])
                if self._phase is _HEAD:
                    limit = self._connections.head
                    raise UnacceptableResponse(f"the head of its reply exceeds the limit connections.head = {limit}")
                data = data[room:]
            feed(data)
        except (HttpParserError, UnacceptableResponse) as error:
            if self._phase is _HEAD:
                self.error = UpstreamUnreachable(f"the upstream connection failed: {reason(error)}")
                self.abort()
            else:
                self._break()
        if self._phase is not _HEAD:
            self._room = _BARREN_BYTES
            self._wake()
            if self.pieces:
                self.unread = len(data)

    def _break(self) -> None:
        """What comes makes no sense."""
        self._keep = 0.0
        if self._phase is _BODY:
            self.error = StreamTruncated(BROKEN)
            self.abort()

    def eof_received(self) -> None:
        """The server has closed its side. Ours follows at once, whatever is still unsent."""
        self._over(None)
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The last that is heard of the connection."""
        self._over(error)
        self._parser = None  # it holds methods of this object
        self._pool.discard(self)

    def _over(self, error: Exception | None) -> None:
        phase, self._phase = self._phase, _CLOSED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if phase is _HEAD:
            # Not "nothing was sent": the server may have acted on it, so nobody may send it again.
            told = str(error) or type(error).__name__ if error is not None else "Server disconnected"
            self.error = UpstreamUnreachable(f"the upstream connection failed: {told}")
        elif phase is _BODY:
            if self._until_close and error is None and self._was_closed_cleanly():
                self.ended = True
            else:
                self.error = StreamTruncated(BROKEN)
        self._wake()

    def _was_closed_cleanly(self) -> bool:
        """With TLS only a close_notify ends a body without a length: a mere end of the connection may be an attack."""
        tls = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return True
        try:
            return bool(tls.read(1) == b"")
        except ssl.SSLError:
            return False

    def _wake(self) -> None:
        step = self.parked
        if step is not None:
            self.parked = None
            step()
            return
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)


def _readable(fd: int) -> bool:
    if sys.platform == "win32":
        return bool(select.select((fd,), (), (), 0)[0])
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
