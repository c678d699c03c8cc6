"""aiohttp's handler of a connection, with a timeout for request heads and configurable error responses.

aiohttp answers a request that it cannot parse in plain text, and it accepts some requests that RFC 9112 does not allow.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion10, HttpVersion11, RawRequestMessage

from dragoman.aio.downstream.aiohttp_internals import (
    Message,
    is_between_requests,
    is_paused,
    parse_error,
    queued_requests,
    receive,
    rejected_request,
    release_transport,
    request_count,
)
from dragoman.aio.downstream.connection_limits import GRACE, HeadTimeout, OpenConnections, TooManyConnections
from dragoman.aio.downstream.lingering_close import START
from dragoman.aio.downstream.request_framing import RequestFraming
from dragoman.aio.timer_wheel import TimerWheel, timer_wheel
from dragoman.aio.unread import has_unread


class BadVersion(HttpProcessingError):
    """A request of another version than HTTP/1.0 and HTTP/1.1."""

    code = 505


class BadTransferEncoding(HttpProcessingError):
    """A request whose end is unknown, or differs between this server and a proxy before it (RFC 9112 §6.1)."""

    code = 400


def _rejection(message: Message) -> BaseException | None:
    """Return why a request is rejected: by aiohttp's parser, or by a rule that the parser does not enforce."""
    if not isinstance(message, RawRequestMessage):
        return parse_error(message)
    version = message.version
    if version != HttpVersion11 and version != HttpVersion10:
        return BadVersion(message=f"HTTP/{version.major}.{version.minor} is not supported: send HTTP/1.1")
    codings = message.headers.getall("transfer-encoding", ())
    if codings and version == HttpVersion10:
        return BadTransferEncoding(message="HTTP/1.0 has no transfer-encoding: send a content-length")
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        return BadTransferEncoding(message='the only transfer-encoding that is read here is "chunked"')
    return None


class RequestHandler(web.RequestHandler):
    """Handles the requests of one of `connections`. `reused`: the connection has served requests before, so the timeout
    for a head starts with the head's first byte and not with the connection. `framing` counts the complete requests."""

    __slots__ = ("_connections", "_head_deadline", "_head_start", "_reused", "_wheel", "_wheel_slot", "framing")

    def __init__(self, connections: OpenConnections, reused: bool, server: web.Server, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._connections = connections
        self.framing = RequestFraming()
        self._head_start = b""
        """The first bytes of an incomplete or rejected head."""
        self._head_deadline = 0.0
        self._wheel: TimerWheel | None = None
        """The wheel that times the head; None while no head is expected."""
        self._wheel_slot = 0
        self._reused = reused

    @property
    def handled(self) -> int:
        """Number of received requests that are no longer queued."""
        return request_count(self) - len(queued_requests(self))

    @property
    def is_kept(self) -> bool:
        """True if the connection has served a request, and no byte of a further one has arrived.

        It asks the kernel, as the event loop may not have read yet what has arrived.
        """
        framing, transport = self.framing, self.transport
        served = self._reused or framing.complete > 0
        if not served or framing.partial or framing.complete != self.handled or not is_between_requests(self):
            return False
        return transport is not None and not has_unread(transport.get_extra_info("socket").fileno())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start aiohttp's part of the connection, and the timeout for the first head."""
        super().connection_made(transport)
        if not self._reused:
            self._connections.waiting[self] = None
            self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timeout and aiohttp's part of the connection."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse one network read, and reject requests that must not be handled."""
        count = request_count(self)
        between_requests = is_between_requests(self)
        receive(self, data)
        added = request_count(self) - count
        if added:
            if self._wheel is not None:
                self._stop_head_timer()
            message = queued_requests(self)[-1][0]
            if (
                added == 1
                and type(message) is RawRequestMessage
                and message.version is HttpVersion11
                and not message.chunked
            ):
                self._head_start = b""  # nearly every request
                if not self.framing.feed_whole(data, message):
                    self.framing.feed(data, (message,))
            else:
                self.framing.feed(data, [head for head, _ in queued_requests(self)][-added:])
                self._check_requests(added, between_requests, data)
            return
        if not data:  # aiohttp resumes reading
            return
        self.framing.feed(data, ())
        if between_requests and len(self._head_start) < START:
            self._head_start = (self._head_start + data).lstrip(b"\r\n")[:START]
            if self._head_start and self._wheel is None:
                self._start_head_timer()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading if it is paused. aiohttp calls this twice for each body, and would parse nothing again."""
        if is_paused(self):
            super().resume_reading(resume_parser)

    def _start_head_timer(self) -> None:
        loop, seconds = asyncio.get_running_loop(), self._connections.limits.head
        self._head_deadline = loop.time() + seconds
        self._wheel = timer_wheel(loop, seconds / 4)
        self._wheel_slot = self._wheel.add(self)

    def _stop_head_timer(self) -> None:
        wheel, self._wheel = self._wheel, None
        if wheel is not None:
            wheel.remove(self, self._wheel_slot)
            self._connections.waiting.pop(self, None)

    def on_tick(self, now: float, /) -> None:
        """Check the timeout for the head: called by the timer wheel."""
        if now < self._head_deadline:
            return
        self._stop_head_timer()
        if self._head_start:
            seconds = self._connections.limits.head
            self._refuse(HeadTimeout(message=f"the request's head did not end within {seconds:g} s"))
        else:
            self.force_close()  # there is no request to answer

    def make_room(self, now: float) -> bool:
        """Close the connection if it is older than `GRACE`: see `UnusedConnection`."""
        limits = self._connections.limits
        if now < self._head_deadline - limits.head + GRACE:
            return False
        self._stop_head_timer()
        response = limits.refuse(TooManyConnections("max_connections"), self._head_start)
        if self._head_start and self.transport is not None:
            self.transport.write(response.encode())
        self.force_close()
        return True

    def _check_requests(self, count: int, between_requests: bool, data: bytes) -> None:
        """Reject the first of the last `count` requests that must not be handled. All were received in `data`."""
        requests = queued_requests(self)
        for place in range(len(requests) - count, len(requests)):
            error = _rejection(requests[place][0])
            if error is None:
                continue
            self._head_start = (self._head_start + data)[:START]
            if between_requests and place == 0 and isinstance(error, HttpProcessingError):
                self._refuse(error)
            else:
                # Requests before it are still to be answered; `handle_error` is called for it in its turn.
                requests[place] = rejected_request(error)
            return
        self._head_start = b""

    def _refuse(self, error: HttpProcessingError) -> None:
        """Answer with `error`, end aiohttp's part of the connection, then close it."""
        transport = self.transport
        if transport is None:
            return
        self._log_refusal(error, self.peername)
        queued_requests(self).clear()
        release_transport(self)
        self._connections.end(transport, error, self._head_start)

    def linger(self) -> None:
        """Close the connection of a WebSocket whose close frame was sent, and whose client may still send."""
        transport, self.transport = self.transport, None  # aiohttp would close it
        if transport is not None:
            self._connections.linger(transport)

    def _log_refusal(self, error: BaseException, peer: object) -> None:
        address = peer[0] if isinstance(peer, tuple) else peer
        self.logger.error("Error handling request from %s", address, exc_info=error)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to a request that cannot be handled, or whose handler has raised an exception."""
        super().handle_error(request, status, exc, message)  # logs the error, and raises if a response has begun
        request_start = self._head_start
        if not isinstance(exc, HttpProcessingError):
            request_start = f"{request.method} {request.path} HTTP/1.1".encode(errors="replace")
            exc = HttpProcessingError(code=status, message="internal error")
        refusal = self._connections.limits.refuse(exc, request_start)
        response = web.Response(status=refusal.status, headers=refusal.headers, body=refusal.body)
        response.force_close()
        return response
