"""The transport on aiohttp's client, for what the raw one does not do: egress proxies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from io import BytesIO

import aiohttp

from dragoman.aio.batch_slices import SMALL, next_turn, slice_end
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.dialects.errors.redact import quote_word
from dragoman.errors import LimitExceeded, StreamTruncated, UpstreamTimeout, UpstreamUnreachable

_WHOLE = 2**20
"""aiohttp writes a longer body of bytes all the same, but with a ResourceWarning each time."""
_BROKEN = (aiohttp.ClientError, OSError)
_TRIES = 8
"""Connections that a call finds unfit before it gives up: each is closed, and nothing was sent on it."""


class AiohttpResponse:
    """See `Answer`."""

    __slots__ = ("_response", "_watch", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, watch: StreamTimers) -> None:
        self._response = response
        self._watch = watch
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        pieces: list[bytes] = []
        size = 0
        async for piece in self._received(sliced=False):
            size += len(piece)
            if size > limit:
                raise LimitExceeded("reply_body", limit, upstream=True)
            pieces.append(piece)
        return b"".join(pieces)

    def batches(self) -> AsyncGenerator[bytes, None]:
        """The body, one network read at a time, a long one in slices."""
        return self._received(sliced=True)

    async def _received(self, sliced: bool) -> AsyncGenerator[bytes, None]:
        content, watch = self._response.content, self._watch
        try:
            while data := await content.readany():
                watch.received()
                if len(data) <= SMALL or not sliced:
                    yield data
                    continue
                start = 0
                # A failure of ours ends it at once, one of the connection's behind what was read.
                while start < len(data) and isinstance(content.exception(), (*_BROKEN, type(None))):
                    end = slice_end(data, start)
                    yield data[start:end]
                    start = end
                    await next_turn()
        except _BROKEN as error:
            raise StreamTruncated("upstream connection broke before the end of the stream") from error

    async def close(self) -> None:
        """Give back or cut the connection."""
        self._watch.upstream_done()
        response = self._response
        try:
            if not response.content.at_eof():
                # The terminal event was read, but maybe not the last chunk behind it: a look keeps the connection.
                with _quiet():
                    async with asyncio.timeout(0.05):
                        await response.content.readany()
        finally:
            # Also when the look was cancelled, by a client that left behind its last event (T-74).
            if response.content.at_eof():
                response.release()
            else:
                response.close()


class _quiet:
    """Whatever a look at a connection that is to be closed raises is of no interest, but for a cancellation."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, Exception)


class _ClosedBeforeRequest(aiohttp.ClientError):
    """A kept connection has bytes to read that nobody asked for; nothing was sent on it, and it is closed."""

    def __str__(self) -> str:
        return "bytes that nobody asked for"


class _Request(aiohttp.ClientRequest):
    """Looks before it sends: aiohttp would take what the connection has already for the reply."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """As ever. Raises _Unasked."""
        if conn.protocol is None or conn.protocol.should_close:
            raise _ClosedBeforeRequest
        return await super().send(conn)


def _reason(error: Exception) -> str:
    """Describe a failure without aiohttp's own text: it may hold the URL, whose query may hold a key."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered status {error.status}"
    if isinstance(error, aiohttp.ClientResponseError):
        _, encoded, what = error.message.partition("Can not decode content-encoding: ")
        if encoded:
            return f"its reply has a content-encoding that cannot be decoded: {quote_word(what.partition('.')[0])}"
        return "its reply is not well-formed HTTP/1.1"
    if isinstance(error, aiohttp.InvalidURL):
        return "its URL is not one of http or https; check its base_url"
    if isinstance(error, _ClosedBeforeRequest):
        return str(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without a reply"
    return getattr(error, "strerror", None) or type(error).__name__


class AiohttpTransport:
    """The transport on aiohttp's client. Must be made inside a running event loop.

    `tls` is for a certificate authority of one's own; `trust_env` takes proxies from the environment (`HTTPS_PROXY`).
    Of `connections`, aiohttp knows `limit`, `idle_seconds` and `dns_seconds`.
    """

    def __init__(
        self,
        connections: PoolOptions | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        trust_env: bool = False,
    ) -> None:
        kept = connections or PoolOptions()
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=kept.limit,
            ttl_dns_cache=int(kept.dns_seconds),
            keepalive_timeout=kept.idle_seconds,
            ssl=tls or True,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None),
            trust_env=trust_env,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "dragoman"},
            read_bufsize=2**17,
            request_class=_Request,
        )

    async def open(self, call: UpstreamRequest, watch: StreamTimers) -> AiohttpResponse:
        """Send the call. Redirects are not followed: an upstream that moves is a configuration to mend."""
        headers = dict(call.headers)
        if call.stream:
            headers["accept-encoding"] = "identity"
        timeouts = call.timeouts
        early: list[BaseException] = []
        try:
            async with asyncio.timeout(timeouts.first_byte) as waiting:

                def fail(error: BaseException) -> None:
                    early.append(error)
                    waiting.reschedule(0)

                watch.attach(fail)
                response = await self._post(call, headers)
        except TimeoutError as error:
            if early:
                raise early[0] from None
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                raise UpstreamTimeout("connect", timeouts.connect) from error
            raise UpstreamTimeout("first_byte", timeouts.first_byte) from error
        except aiohttp.ClientConnectorError as error:
            why = error.os_error.strerror or type(error.os_error).__name__
            raise UpstreamUnreachable(f"cannot connect to the upstream: {why}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamUnreachable(f"the upstream connection failed: {_reason(error)}") from error
        content = response.content
        connection = response.connection
        transport = connection.transport if connection is not None else None

        def broken() -> bool:
            # aiohttp closes the connection on a malformed chunk, but leaves the reader waiting for ever.
            closed = transport is not None and transport.is_closing()
            return closed and not content.is_eof() and content.exception() is None

        watch.attach(content.set_exception, broken)
        return AiohttpResponse(response, watch)

    async def _post(self, call: UpstreamRequest, headers: dict[str, str]) -> aiohttp.ClientResponse:
        tries = 0
        get = call.method == "GET"
        while True:
            tries += 1
            try:
                return await self._session.request(
                    call.method,
                    call.url,
                    data=None if get else call.body if len(call.body) <= _WHOLE else BytesIO(call.body),
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=call.timeouts.connect),
                )
            except _ClosedBeforeRequest:
                if tries == _TRIES:
                    raise

    async def close(self) -> None:
        """Close the session and all its connections."""
        await self._session.close()
