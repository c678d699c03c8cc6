"""The transport on plain sockets (decision 0007): HTTP/1.1, one request at a time on pooled keep-alive connections.

No redirects, no HTTP/2. Proxies are those that the caller names; for those of the environment there is
`aiohttp_transport.py`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress

from dragoman.aio.batch_slices import WRITE_SLICE
from dragoman.aio.long_work import next_turn
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.egress_proxy import EgressProxy
from dragoman.aio.upstream.http11.pool import Pool
from dragoman.aio.upstream.http11.request_head import Origin, RequestHeadEncoder, parse_url, request_head
from dragoman.aio.upstream.http11.response import Http11Response
from dragoman.aio.upstream.interface import CloseOnExit, Upload, UpstreamRequest

_TARGETS_MAX = 1024
_CLOSE_SECONDS = 1.0
"""Time for the loop to close all sockets, which takes one turn of it."""


class Http11Transport(CloseOnExit):
    """A `Transport` over HTTP/1.1. Must be created inside a running event loop.

    `tls` replaces the default TLS settings, for instance with another certificate authority. `proxy` is the URL of a
    proxy for all connections, `http://` (by CONNECT) or `socks5://`; raises ValueError for another URL.
    """

    def __init__(
        self,
        options: PoolOptions | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._options = options or PoolOptions()
        through = None if proxy is None else EgressProxy(proxy)
        self._connector = Connector(tls, self._options.dns_seconds, through)
        self._pools: dict[Origin, Pool] = {}
        self._targets: dict[str, tuple[Pool, RequestHeadEncoder]] = {}

    @property
    def busy(self) -> int:
        """Number of connections in use or being opened."""
        return sum(pool.busy for pool in self._pools.values())

    def pools(self) -> Sequence[Pool]:
        """Return the pools, one for each origin that requests were sent to."""
        return tuple(self._pools.values())

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> Http11Response:
        """Send the request and wait for the response's head. Redirects are not followed: the base URL must be changed.

        Raises UpstreamUnreachable, UpstreamTimeout, or the error by which the timers end the request.
        """
        target = self._targets.get(request.url) if request.method == "POST" else None
        pool, encoder = target or self._target(request.url, request.method)
        length = len(request.body)
        head = encoder.encode(request.headers, length, stream=request.stream)
        connection = pool.acquire_idle()
        if connection is None:
            connection = await pool.acquire(request.timeouts.connect, timers)
        timers.attach(connection.fail)
        if length <= WRITE_SLICE:
            connection.send(head, request.body)
        else:
            await _send_slices(connection, head, request.body)
        await connection.wait_for_head()
        return Http11Response(connection, timers)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> Http11Response:
        """Send a request with the body `upload`, and wait for the response's head.

        Raises as `open` does, and what `upload.pieces` raises.
        """
        _, start = parse_url(request.url, request.method)
        pool, _ = self._target(request.url, request.method)
        head = request_head(start, request.headers, upload.length, stream=request.stream)
        connection = pool.acquire_idle()
        if connection is None:
            connection = await pool.acquire(request.timeouts.connect, timers)
        timers.attach(connection.fail)
        connection.send(head, b"")
        try:
            await _send_pieces(connection, upload, timers)
        except BaseException:
            connection.abort()
            raise
        await connection.wait_for_head()
        return Http11Response(connection, timers)

    def _target(self, url: str, method: str = "POST") -> tuple[Pool, RequestHeadEncoder]:
        """Return the pool and the head encoder of a URL, and keep them for further requests to it."""
        origin, start = parse_url(url, method)
        if len(self._targets) >= _TARGETS_MAX:
            # The gateway's URLs come from its configuration, but an embedder's may come from anywhere.
            self._targets.clear()
            self._pools = {origin: pool for origin, pool in self._pools.items() if not pool.unused}
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = Pool(origin, self._connector, self._options)
        target = pool, RequestHeadEncoder(start)
        if method == "POST":  # a GET is rare and not worth an entry
            self._targets[url] = target
        return target

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
        self._connector.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*(pool.close() for pool in self._pools.values()))


async def _send_slices(connection: Connection, head: bytes, body: bytes) -> None:
    """Send a long body in slices, one per turn of the loop. When the response begins, the rest is sent at once."""
    connection.send(head, body[:WRITE_SLICE])
    if not connection.awaits_head():
        return  # nothing was sent
    try:
        for start in range(WRITE_SLICE, len(body), WRITE_SLICE):
            await next_turn(len(body) - start)
            if not connection.awaits_head():
                connection.send_rest(body[start:])
                return
            await connection.send_piece(body[start : start + WRITE_SLICE])
    except BaseException:
        connection.abort()
        raise


async def _send_pieces(connection: Connection, upload: Upload, timers: StreamTimers) -> None:
    """Send a body while it arrives, in chunks if its length is not known. Stops when the response begins."""
    chunked = upload.length is None
    async for piece in upload.pieces:
        if piece and not await connection.send_piece(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece):
            connection.cut_short()
            return
        timers.written()  # the time for the response begins when the body was sent
    if chunked and not await connection.send_piece(b"0\r\n\r\n"):
        connection.cut_short()
