"""All uses of private parts of aiohttp's server, one function per use. Each docstring states what it assumes.

`tests/unit/engine/aio/downstream/test_aiohttp_internals.py` tests each assumption. Run it first after an update of
aiohttp. `aiohttp_check` tests the installed version when a server starts: after `distrust`, replies are sent by
aiohttp's public interface.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, cast

from aiohttp import WebSocketError, WSCloseCode, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from dragoman.aio.downstream.masked_frames import MaskedFrames, may_be_sent
from dragoman.aio.long_work import long_work, next_turn

try:
    from aiohttp.web_protocol import _ErrInfo
except ImportError:  # `aiohttp_check` then finds that it is missing

    class _ErrInfo:  # type: ignore[no-redef]
        exc: BaseException


Message = RawRequestMessage | _ErrInfo
"""The head of a request, or the error of a parser that could not read it."""

_trusted = True


def is_trusted() -> bool:
    """Return whether the installed aiohttp may be used by its private parts."""
    return _trusted


def distrust() -> None:
    """Use aiohttp's public interface from now on: it writes all responses, and no connection is hijacked."""
    global _trusted
    _trusted = False


# --- the connection handler -----------------------------------------------------------------------------------------


def handler_options(server: web.Server) -> dict[str, Any]:
    """Return the keyword arguments with which `server` creates its handlers.

    Assumes that `Server.__call__` creates `RequestHandler(server, loop=…, **server._kwargs)`.
    """
    return server._kwargs


def as_server(factory: Callable[[], asyncio.BaseProtocol]) -> web.Server:
    """Return a protocol factory as the `server` of a runner.

    Assumes that a runner's sites use the property `server` only as the protocol factory of `create_server`, and that
    `BaseRunner.cleanup` uses `_server`.
    """
    return cast("web.Server", factory)


receive = web.RequestHandler.data_received
"""Give a handler the bytes of one network read. Called without `super()`, which would create an object for each read.

Assumes that all requests whose head is complete are parsed, queued and counted when the call returns.
"""


request_count: Callable[[web.RequestHandler], int] = attrgetter("_request_count")
"""Return the number of requests received on the connection, including those that cannot be parsed.

Assumes that `data_received` counts each request in `_request_count` when it queues it.
"""

queued_requests: Callable[[web.RequestHandler], deque[tuple[Message, StreamReader]]] = attrgetter("_messages")
"""Return the queue of requests that no handler has begun, oldest first, each with its body.

Assumes that `data_received` appends to `_messages` and that the handler's task takes from its left.
"""


def is_between_requests(handler: web.RequestHandler) -> bool:
    """Return whether no request is being handled.

    Assumes that `_waiter` is set only while the handler's task waits for a request. At first the task has not run yet.
    """
    return handler._waiter is not None or handler._request_count == 0


def is_paused(handler: web.RequestHandler) -> bool:
    """Return whether reading from the client is paused, or whether bytes of it wait to be parsed.

    Assumes that `resume_reading` has no effect otherwise.
    """
    return handler._reading_paused or handler._buffer_paused


def parse_error(message: Message) -> BaseException | None:
    """Return the error of a request that aiohttp's parser rejected, else None.

    Assumes that such a request is queued as an `_ErrInfo`.
    """
    return message.exc if isinstance(message, _ErrInfo) else None


def rejected_request(error: BaseException) -> tuple[Message, StreamReader]:
    """Return a queue entry for which the handler calls `handle_error(request, 400, error, …)` in its turn.

    Assumes that this is done for each `_ErrInfo`.
    """
    return _ErrInfo(400, error, str(error)), EMPTY_PAYLOAD


def release_transport(handler: web.RequestHandler) -> None:
    """End a handler as if its client had disconnected, but leave the connection open.

    Assumes that `connection_lost` closes only `handler.transport`, cancels the running handler (of a server with
    `handler_cancellation`), and frees the parser; and that a response which the handler then returns is not sent.
    """
    handler.transport = None
    handler.connection_lost(None)


# --- a request ------------------------------------------------------------------------------------------------------


def cancel_keep_alive_timer(request: web.BaseRequest) -> None:
    """Cancel the timer for the time between two requests, which keeps more than 500 bytes alive.

    Assumes that `keep_alive` cancels it, and that the handler starts it again after the response.
    """
    request.protocol.keep_alive(True)


def abandon_body(request: web.BaseRequest) -> None:
    """Skip the rest of a request's body, and close the connection after the response.

    Assumes that aiohttp otherwise waits for the rest after the response (or fails on it again, and logs that as an
    error), and that its parser does not find a next request: it would never be answered.
    """
    request.content.feed_eof()
    request.protocol.close()


def is_decompressed(request: web.BaseRequest) -> bool:
    """Return whether aiohttp's parser decompresses the request's body. `HijackRunner` has switched that off.

    Assumes that only a body that is decompressed has a number as `total_compressed_bytes`.
    """
    return getattr(request.content, "total_compressed_bytes", None) is not None


async def send_continue(request: web.BaseRequest) -> None:
    """Send `100 Continue`.

    Assumes that aiohttp takes a writer whose `output_size` is not 0 for one that has begun its response.
    """
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0


def with_body(request: web.Request, headers: Mapping[str, str], body: bytes) -> web.Request:
    """Return a POST with these headers and this body, as if it had come on the connection of `request`.

    Assumes that `clone` shares the connection, and that `_payload` is the body, from which alone it is read.
    """
    copy = request.clone(method="POST", headers=headers)
    # A reader that holds more than its limit would pause the connection.
    content = StreamReader(request.protocol, limit=len(body) + 1, loop=asyncio.get_running_loop())
    content.feed_data(body)
    content.feed_eof()
    copy._payload = content
    return copy


class _NoTransport:
    """Takes the place of a connection's transport, and is never closed."""

    def __init__(self, transport: asyncio.BaseTransport | None) -> None:
        names = ("peername", "sockname", "sslcontext")
        self._info = {name: transport.get_extra_info(name) for name in names} if transport is not None else {}

    def is_closing(self) -> bool:
        """Return False."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the connection's transport has under this name."""
        return self._info.get(name, default)


class _NoConnection:
    """Takes the place of a connection's protocol, also for copies of a request whose body is there (`with_body`)."""

    connected = True
    _reading_paused = False

    def __init__(self, request: web.Request) -> None:
        self.transport = _NoTransport(request.transport)
        self.ssl_context, self.peername = request.protocol.ssl_context, request.protocol.peername
        self.sockname = request.protocol.sockname
        self.close = request.protocol.close

    def pause_reading(self) -> None:
        """Return at once: nothing is read."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Return at once."""


def without_connection(request: web.Request, headers: Mapping[str, str], body: bytes) -> web.Request:
    """Return a POST with these headers and this body that does not end with the connection of `request`.

    Assumes that of the protocol only the transport is used while a request is read whose body is there.
    """
    copy = with_body(request, headers, body)
    copy._protocol = cast("Any", _NoConnection(request))
    return copy


def detached_request(request: web.Request) -> web.Request:
    """Return the request so that, once its body was read, it does not end with its connection.

    Assumes that `clone` shares the body, which does not need the protocol of the request, and that of the protocol only
    the transport and `close` are used while a request is read.
    """
    copy = request.clone()
    copy._protocol = cast("Any", _NoConnection(request))
    return copy


# --- a WebSocket ----------------------------------------------------------------------------------------------------


class MaskedWebSocketResponse(web.WebSocketResponse):
    """A WebSocket that is closed with 1002 at the first frame that breaks a rule of `masked_frames`.

    Assumes that `_post_start` makes `_parser` the connection's `_payload_parser`, which reads all that arrives, and
    that what arrived with the handshake is in `_message_tail` until then; that `_close_transport` closes the
    connection, with the reader's error in `_exception`; and that a handler without a transport closes none.
    """

    def _post_start(self, request: web.BaseRequest, protocol: str | None, writer: Any) -> None:
        if not _trusted:
            return super()._post_start(request, protocol, writer)
        connection = request.protocol
        early, connection._message_tail = connection._message_tail, b""
        super()._post_start(request, protocol, writer)
        frames = MaskedFrames(connection._payload_parser, partial(_read_later, connection))
        connection._payload_parser = frames
        if early:
            frames.feed_data(early)

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True) -> bool:
        """Close the connection, with 1002 if the client has closed it with a code that no frame may have."""
        if not may_be_sent(self.close_code or 0):
            code = WSCloseCode.PROTOCOL_ERROR
        return await super().close(code=code, message=message, drain=drain)

    async def pong(self, message: bytes = b"") -> None:
        """Answer a ping: `receive` does it for thousands of them without a wait."""
        await super().pong(message)
        await next_turn()

    def _close_transport(self) -> None:
        """Close the connection. After an error of the reader the client may be in the middle of a message: a reset
        would destroy the close frame."""
        linger = getattr(self._req.protocol, "linger", None) if self._req is not None else None
        if _trusted and linger is not None and isinstance(self._exception, WebSocketError):
            linger()
        else:
            super()._close_transport()


def _read_later(connection: web.RequestHandler, read: Callable[[], bool], left: int) -> None:
    """Call `read` in a turn with little other long work, and read nothing from the client until then.

    Assumes that a WebSocket's connection is closed as its reader returns that it has ended.
    """
    if connection.transport is not None:
        connection.transport.pause_reading()
    long_work(asyncio.get_running_loop()).add(partial(_read_now, connection, read), left)


def _read_now(connection: web.RequestHandler, read: Callable[[], bool]) -> None:
    transport = connection.transport
    if transport is None or transport.is_closing():
        return
    if not is_paused(connection):
        transport.resume_reading()  # first, as `read` may pause it again
    if read():
        connection.close()


# --- a response -----------------------------------------------------------------------------------------------------


class DirectHeadResponse(web.StreamResponse):
    """A response whose head is made here, with the same bytes as aiohttp's in a third of the instructions.

    Only the head of a response with a body to an HTTP/1.1 client is made here, without cookies and compression; aiohttp
    makes the others. Assumes that `prepare` awaits `_start` once, which sets `_req`, `_payload_writer` and
    `_keep_alive`, adds the headers that aiohttp adds, awaits each receiver of the signal `on_response_prepare` of the
    request's applications, and puts the head into the writer's `_headers_buf`.
    """

    async def _start(self, request: web.BaseRequest) -> AbstractStreamWriter:
        writer = request._payload_writer
        if (
            not _trusted
            or type(writer) is not StreamWriter
            or not isinstance(request, web.Request)
            or request.version is not HttpVersion11
            or self._must_be_empty_body
            or self._chunked
            or self._compression
            or self._cookies
        ):
            if request.version < HttpVersion11 and self.content_length is None:
                self.force_close()  # the body ends with the connection, which aiohttp could keep
            return await super()._start(request)
        self._req, self._payload_writer = request, writer
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        headers = self._headers
        writer.length = length = self.content_length
        if length is None:
            writer.enable_chunking()
            headers[hdrs.TRANSFER_ENCODING] = "chunked"
        if length != 0:
            headers.setdefault(hdrs.CONTENT_TYPE, "application/octet-stream")
        if hdrs.DATE not in headers:
            headers[hdrs.DATE] = rfc822_formatted_time()
        headers.setdefault(hdrs.SERVER, SERVER_SOFTWARE)
        if not self._keep_alive and hdrs.CONNECTION not in headers:
            headers[hdrs.CONNECTION] = "close"
        if (match_info := request._match_info) is not None:
            for app in match_info._apps:
                for receiver in app.on_response_prepare:
                    await receiver(request, self)
        lines = [f"HTTP/1.1 {self.status} {self.reason}", *map(": ".join, headers.items()), "", ""]
        text = "".join(lines)
        if "\n" in text or "\r" in text or "\0" in text:  # RFC 9110 §5.5
            await self._write_headers()  # raises ValueError
        else:
            writer._headers_buf, writer._headers_written = "\r\n".join(lines).encode(), False
            if self._send_headers_immediately:
                writer.send_headers()
        return writer


class DeferredHeadersResponse(DirectHeadResponse):
    """A response whose headers are sent with the first piece of its body, in one write.

    Assumes that `prepare` sends them at once only if `_send_headers_immediately` is True.
    """

    _send_headers_immediately = False


class DirectResponse(web.Response, DirectHeadResponse):
    """A whole response whose head is made here. Assumes that `Response._start` calls that of its base."""


def send_headers(request: web.BaseRequest) -> None:
    """Send the headers, if they were not sent yet. Raises ConnectionError if the client has disconnected.

    Assumes that `send_headers` of the request's writer does this, synchronously.
    """
    request.writer.send_headers()


def plain_chunked_writer(response: web.StreamResponse, writer: AbstractStreamWriter | None) -> StreamWriter | None:
    """Return the writer if it puts each piece of the body into a chunk and does nothing else, else None.

    Assumes that a `StreamWriter` can then be bypassed after the first piece: chunks written to `writer.transport` do
    not disturb it, `writer.protocol.writing_paused` is True while the transport is full, and `writer.drain()` waits
    until it is not.
    """
    if not _trusted or type(writer) is not StreamWriter or not writer.chunked or writer.length is not None:
        return None
    return None if response.compression or hdrs.CONTENT_ENCODING in response.headers else writer


def take_head(writer: StreamWriter) -> bytes:
    """Return the head for the caller to send; b"" if it was sent.

    Assumes that an unsent head is in `_headers_buf`, and that `_headers_written` keeps the writer from sending it.
    """
    head = writer._headers_buf
    if not head or writer._headers_written:
        return b""
    writer._headers_buf, writer._headers_written = None, True
    return head


def write_whole(response: web.Response, body: bytes) -> StreamWriter | None:
    """Write the head and the whole body in one call, and end the response. Return the writer, to wait for the client.

    Return None if only aiohttp can write this response. Raises ConnectionResetError if the client has disconnected.
    Assumes that a writer that neither chunks nor compresses would write the same bytes.
    """
    writer = response._payload_writer if _trusted else None
    if type(writer) is not StreamWriter or writer.chunked or writer._compress or response._must_be_empty_body:
        return None
    transport = writer.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client hung up")
    message = take_head(writer) + body
    transport.write(message)
    add_sent_bytes(writer, len(message))
    end_body(response, writer)
    return writer


def end_body(response: web.StreamResponse, writer: StreamWriter) -> None:
    """End a response whose body was written past its writer, up to the last byte.

    Assumes that `write_eof` of the response and of the writer set no more than this, and do nothing after it.
    """
    writer._eof = response._eof_sent = True
    response._req = response._payload_writer = None
    response._body_length = writer.output_size


def add_sent_bytes(writer: StreamWriter, size: int) -> None:
    """Count bytes that were written past the writer.

    Assumes that `output_size` is used only for the size of the response, in `body_length` and the access log.
    """
    writer.output_size += size
