"""aiohttp's connection handler with a limit on the time that a request's head takes, and replies of our own making for
requests that reach no handler: aiohttp's are plain text, and it accepts some that RFC 9112 does not."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion10, HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import _ErrInfo

from dragoman.aio.downstream.connection_limits import GRACE, HeadTimeout, OpenConnections, TooManyConnections
from dragoman.aio.downstream.lingering_close import START
from dragoman.aio.timer_wheel import TimerWheel, timer_wheel


class BadVersion(HttpProcessingError):
    """A request of another version than HTTP/1.0 and HTTP/1.1."""

    code = 505


class BadTransferEncoding(HttpProcessingError):
    """A request whose end cannot be known, or differs between this server and a proxy before it (RFC 9112 §6.1)."""

    code = 400


def _fault(message: RawRequestMessage | _ErrInfo) -> BaseException | None:
    """Why a request is refused though aiohttp's parser took it, or why the parser did not."""
    if isinstance(message, _ErrInfo):
        return message.exc
    version = message.version
    if version != HttpVersion11 and version != HttpVersion10:
        return BadVersion(message=f"HTTP/{version.major}.{version.minor} is not supported: send HTTP/1.1")
    codings = message.headers.getall("transfer-encoding", ())
    if codings and version == HttpVersion10:
        return BadTransferEncoding(message="HTTP/1.0 has no transfer-encoding: send a content-length")
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        return BadTransferEncoding(message='the only transfer-encoding that is read here is "chunked"')
    return None


_receive = web.RequestHandler.data_received
"""Called without `super()`, which makes an object at each read."""


class RequestHandler(web.RequestHandler):
    """The requests of one connection `among` those of a server. `kept`: it has served some before, so that the next one
    may begin late."""

    __slots__ = ("_among", "_due", "_kept", "_slot", "_start", "_wheel")

    def __init__(self, among: OpenConnections, kept: bool, server: web.Server, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._among = among
        self._start = b""
        """The first bytes of a head that has not ended yet, or of one that was refused."""
        self._due = 0.0
        self._wheel: TimerWheel | None = None
        self._slot = 0
        self._kept = kept

    @property
    def handled(self) -> int:
        """The number of requests that are not waiting to be handled any more."""
        return self._request_count - len(self._messages)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client: from now on its head is due."""
        super().connection_made(transport)
        if not self._kept:
            self._among.waiting[self] = None
            self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client is gone."""
        self._have_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As ever, but requests that may not be served are refused."""
        count = self._request_count
        idle = self._waiter is not None or count == 0
        _receive(self, data)
        arrived = self._request_count - count
        if arrived:
            if self._wheel is not None:
                self._have_head()
            message = self._messages[-1][0]
            if (
                arrived == 1
                and type(message) is RawRequestMessage
                and message.version is HttpVersion11
                and not message.chunked
            ):
                self._start = b""  # nearly every request
            else:
                self._judge(arrived, idle, data)
        elif idle and len(self._start) < START:
            self._start = (self._start + data).lstrip(b"\r\n")[:START]
            if self._start and self._wheel is None:
                self._await_head()

    def _await_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self._among.bounds.head
        self._wheel = timer_wheel(loop, self._among.bounds.head / 4)
        self._slot = self._wheel.add(self)

    def _have_head(self) -> None:
        wheel, self._wheel = self._wheel, None
        if wheel is not None:
            wheel.remove(self, self._slot)
            self._among.waiting.pop(self, None)

    def on_tick(self, now: float, /) -> None:
        """The wheel's look at it, while a head is due."""
        if now < self._due:
            return
        self._have_head()
        if self._start:
            self._refuse(HeadTimeout(message=f"the request's head did not end within {self._among.bounds.head:g} s"))
        else:
            self.force_close()  # there is no request to answer

    def make_room(self, now: float) -> bool:
        """See `Waiting`."""
        if now < self._due - self._among.bounds.head + GRACE:
            return False
        self._have_head()
        reply = self._among.bounds.refuse(TooManyConnections("max_connections"), self._start)
        if self._start and self.transport is not None:
            self.transport.write(reply.encode())
        self.force_close()
        return True

    def _judge(self, count: int, idle: bool, data: bytes) -> None:
        """Look at the last `count` requests."""
        messages = self._messages
        for place in range(len(messages) - count, len(messages)):
            fault = _fault(messages[place][0])
            if fault is None:
                continue
            self._start = (self._start + data)[:START]
            if idle and place == 0 and isinstance(fault, HttpProcessingError):
                self._refuse(fault)
            else:
                # Behind requests that are still to be answered; aiohttp calls `handle_error` for it in its turn.
                messages[place] = (_ErrInfo(400, fault, str(fault)), EMPTY_PAYLOAD)
            return
        self._start = b""

    def _refuse(self, error: HttpProcessingError) -> None:
        """Answer the client, end aiohttp's part, and then the connection."""
        transport = self.transport
        if transport is None:
            return
        self._log_refusal(error, self.peername)
        self._messages.clear()
        self.transport = None  # aiohttp would close it
        self.connection_lost(None)
        self._among.end(transport, error, self._start)

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
        """The reply to a request that cannot be served, or whose handler has failed."""
        super().handle_error(request, status, exc, message)  # it logs, and raises if a reply has begun
        start = self._start
        if not isinstance(exc, HttpProcessingError):
            start = f"{request.method} {request.path} HTTP/1.1".encode(errors="replace")
            exc = HttpProcessingError(code=status, message="internal error")
        reply = self._among.bounds.refuse(exc, start)
        response = web.Response(status=reply.status, headers=reply.headers, body=reply.body)
        response.force_close()
        return response
