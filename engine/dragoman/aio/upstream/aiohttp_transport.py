"""The transport on aiohttp's client. It supports egress proxies, which `Http11Transport` does not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import aiohttp

from dragoman.aio.batch_slices import SMALL, slices
from dragoman.aio.decompress import ACCEPTED
from dragoman.aio.long_work import next_turn
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.aiohttp_resolver import ThreadResolver
from dragoman.aio.upstream.decompressed_reply import decompressed
from dragoman.aio.upstream.descriptors import descriptor_failure
from dragoman.aio.upstream.interface import CloseOnExit, Upload, UpstreamRequest
from dragoman.aio.upstream.parted_reads import parse_in_parts
from dragoman.aio.upstream.whole_body import read_whole
from dragoman.errors import StreamTruncated, UpstreamTimeout, UpstreamUnreachable

_BYTES_BODY_MAX = 2**20
"""aiohttp emits a ResourceWarning for a longer body of type bytes."""
_BROKEN = (aiohttp.ClientError, OSError)
_UPLOAD_SECONDS = 3600.0
"""Longest time that the body of an upload may take, in seconds."""
_PIECE = 4 * 1024
"""Most bytes of a stream that are taken at once: aiohttp holds each chunk by itself, and takes 4 ms to join 256 KiB."""
_ATTEMPTS = 8
"""Unusable pooled connections after which a request fails. Each is closed, and nothing was sent on it."""


class AiohttpResponse(CloseOnExit):
    """A response of aiohttp's client: an `UpstreamResponse`."""

    __slots__ = ("_response", "_timers", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, timers: StreamTimers) -> None:
        self._response = response
        self._timers = timers
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, limit: int) -> bytes:
        """Return the complete body. Raises LimitExceeded if it is longer than `limit` bytes, and StreamTruncated."""
        return await read_whole(self._body(sliced=False, limit=limit), limit)

    def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the decompressed body, one batch per network read; a long read is yielded in slices."""
        return self._body(sliced=True)

    def _body(self, sliced: bool, limit: int | None = None) -> AsyncGenerator[bytes, None]:
        received = self._received(sliced)
        encoding = ", ".join(self._response.headers.getall("content-encoding", ()))
        return decompressed(received, encoding, sliced=sliced, limit=limit) if encoding else received

    async def _received(self, sliced: bool) -> AsyncGenerator[bytes, None]:
        content, timers = self._response.content, self._timers
        full = False
        try:
            while data := await _next(content, sliced):
                timers.received()
                # What follows a full piece is of the same read.
                whole = not sliced or (len(data) <= SMALL and not full)
                full = len(data) == _PIECE
                if whole:
                    yield data
                    continue
                left = len(data)
                for part in slices(data):
                    # An error set by a timer ends the body at once, an error of the connection after what was read.
                    if not isinstance(content.exception(), (*_BROKEN, type(None))):
                        break
                    yield part
                    left -= len(part)
                    await next_turn(left)
        except _BROKEN as error:
            raise StreamTruncated("upstream connection broke before the end of the stream") from error

    async def close(self) -> None:
        """Return the connection to the pool if the body has ended, else cut it."""
        self._timers.upstream_done()
        response = self._response
        try:
            if not response.content.at_eof():
                # The terminal event was read, but maybe not the last chunk: with it, the connection can be kept.
                with _ignore_errors():
                    async with asyncio.timeout(0.05):
                        await response.content.readany()
        finally:
            # Also when this was cancelled by a client that disconnected after its last event (T-74).
            if response.content.at_eof():
                response.release()
            else:
                response.close()


async def _next(content: aiohttp.StreamReader, sliced: bool) -> bytes:
    """Return what arrives next of a body. Raises ClientError and OSError."""
    try:
        return await (content.read(_PIECE) if sliced else content.readany())
    except RuntimeError as error:
        # aiohttp's exception for a read from a connection that was closed for a malformed chunk before the read.
        raise aiohttp.ClientConnectionError from error


class _ignore_errors:
    """Suppresses every error but a cancellation, on a connection that is about to be closed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, Exception)


class _ClosedBeforeRequest(aiohttp.ClientError):
    """A pooled connection has unexpected bytes to read. Nothing was sent on it, and it is closed."""

    def __str__(self) -> str:
        return "unexpected bytes on an idle connection"


class _Request(aiohttp.ClientRequest):
    """A request that checks its connection first: aiohttp would take bytes that are there already for the response."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Send the request. Raises _ClosedBeforeRequest."""
        if conn.protocol is None or conn.protocol.should_close:
            raise _ClosedBeforeRequest
        return await super().send(conn)


def _reason(error: Exception) -> str:
    """Return the reason of a failure without aiohttp's own text, which may contain the URL and a key in its query."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered status {error.status}"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its reply is not well-formed HTTP/1.1"
    if isinstance(error, aiohttp.InvalidURL):
        return "its URL is not one of http or https; check its base_url"
    if isinstance(error, _ClosedBeforeRequest):
        return str(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without a reply"
    return getattr(error, "strerror", None) or type(error).__name__


_Data = bytes | BytesIO | AsyncGenerator[bytes, None] | None


async def _recorded(
    pieces: AsyncIterable[bytes], failures: list[BaseException], timers: StreamTimers
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body. An exception is added to `failures`, as aiohttp raises another one for it."""
    try:
        async for piece in pieces:
            yield piece
            timers.written()
    except Exception as error:
        failures.append(error)
        raise


def _data(request: UpstreamRequest) -> bytes | BytesIO | None:
    """Return the body in the form that aiohttp's client takes."""
    if request.method == "GET":
        return None
    return request.body if len(request.body) <= _BYTES_BODY_MAX else BytesIO(request.body)


class AiohttpTransport(CloseOnExit):
    """A `Transport` over aiohttp's client. Must be created inside a running event loop.

    `tls` replaces the default TLS settings, for instance with another certificate authority. `trust_env` takes proxies
    from the environment (`HTTPS_PROXY`). Of `options`, only `limit`, `idle_seconds` and `dns_seconds` are used.
    """

    def __init__(
        self,
        options: PoolOptions | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        trust_env: bool = False,
    ) -> None:
        options = options or PoolOptions()
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=options.limit,
            ttl_dns_cache=int(options.dns_seconds),
            keepalive_timeout=options.idle_seconds,
            ssl=tls or True,
            resolver=ThreadResolver(),
        )
        parse_in_parts(connector)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            trust_env=trust_env,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "dragoman"},
            auto_decompress=False,
            read_bufsize=2**17,
            request_class=_Request,
        )

    def open(self, request: UpstreamRequest, timers: StreamTimers) -> Coroutine[Any, Any, AiohttpResponse]:
        """Send the request and wait for the response's head. Redirects are not followed: the base URL must be changed.

        Raises UpstreamUnreachable, UpstreamTimeout, or the error by which the timers end the request.
        """
        return self._open(request, _data(request), dict(request.headers), timers)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> AiohttpResponse:
        """Send a request with the body `upload`, and wait for the response's head.

        Raises as `open` does, and what `upload.pieces` raises.
        """
        headers = dict(request.headers)
        if upload.length is not None:
            headers["content-length"] = str(upload.length)
        failures: list[BaseException] = []
        # The time for the response begins when the body was sent.
        timeouts = replace(request.timeouts, first_byte=_UPLOAD_SECONDS + request.timeouts.first_byte)
        try:
            data = _recorded(upload.pieces, failures, timers)
            return await self._open(replace(request, timeouts=timeouts), data, headers, timers)
        except UpstreamUnreachable:
            if failures:
                raise failures[0] from None
            raise

    async def _open(
        self, request: UpstreamRequest, data: _Data, headers: dict[str, str], timers: StreamTimers
    ) -> AiohttpResponse:
        headers["accept-encoding"] = "identity" if request.stream else ACCEPTED
        timeouts = request.timeouts
        failures: list[BaseException] = []
        try:
            async with asyncio.timeout(timeouts.first_byte) as timeout:

                def fail(error: BaseException) -> None:
                    failures.append(error)
                    if not timeout.expired():  # two timers may end in one turn of the loop
                        timeout.reschedule(0)

                timers.attach(fail)
                response = await self._request(request, data, headers)
        except TimeoutError as error:
            if failures:
                raise failures[0] from None
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                raise UpstreamTimeout("connect", timeouts.connect) from error
            raise UpstreamTimeout("first_byte", timeouts.first_byte) from error
        except aiohttp.ClientConnectorError as error:
            if (own := descriptor_failure(error.os_error)) is not None:
                raise own from error
            reason = error.os_error.strerror or type(error.os_error).__name__
            raise UpstreamUnreachable(f"cannot connect to the upstream: {reason}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamUnreachable(f"the upstream connection failed: {_reason(error)}") from error
        content = response.content
        connection = response.connection
        transport = connection.transport if connection is not None else None

        def broken() -> bool:
            # aiohttp closes the connection on a malformed chunk, but leaves the reader waiting forever.
            closed = transport is not None and transport.is_closing()
            return closed and not content.is_eof() and content.exception() is None

        timers.attach(content.set_exception, broken)
        return AiohttpResponse(response, timers)

    async def _request(self, request: UpstreamRequest, data: _Data, headers: dict[str, str]) -> aiohttp.ClientResponse:
        attempts = 0
        while True:
            attempts += 1
            try:
                return await self._session.request(
                    request.method,
                    request.url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.timeouts.connect),
                )
            except _ClosedBeforeRequest:
                if attempts == _ATTEMPTS:
                    raise

    async def close(self) -> None:
        """Close the session and all its connections."""
        await self._session.close()
