"""The transport on raw sockets (decision 0007): HTTP/1.1, one request at a time on pooled keep-alive connections.

No proxies, no redirects, no HTTP/2: for egress proxies there is `aiohttp_client`.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.pool import Pool
from dragoman.aio.upstream.http11.request_head import Origin, RequestHeadEncoder, parse_url
from dragoman.aio.upstream.http11.response import Http11Response
from dragoman.aio.upstream.interface import UpstreamRequest

_TARGETS = 1024
_CLOSING = 1.0
"""Seconds that sockets get to be closed by the loop, which takes one turn of it."""


class Http11Transport:
    """The transport. Must be made inside a running event loop; `tls` is for a certificate authority of one's own."""

    def __init__(self, connections: PoolOptions | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self._connections = connections or PoolOptions()
        self._connector = Connector(tls, self._connections.dns_seconds)
        self._pools: dict[Origin, Pool] = {}
        self._targets: dict[str, tuple[Pool, RequestHeadEncoder]] = {}

    @property
    def busy(self) -> int:
        """Connections that carry a request, or are being made for one."""
        return sum(pool.busy for pool in self._pools.values())

    async def open(self, call: UpstreamRequest, watch: StreamTimers) -> Http11Response:
        """Send the call. Redirects are not followed: an upstream that moves is a configuration to mend."""
        known = self._targets.get(call.url) if call.method == "POST" else None
        pool, heads = known or self._target(call.url, call.method)
        head = heads.encode(call.headers, len(call.body), stream=call.stream)
        connection = pool.acquire_idle()
        if connection is None:
            connection = await pool.acquire(call.timeouts.connect, watch)
        watch.attach(connection.fail)
        connection.send(head, call.body)
        await connection.wait_for_head()
        return Http11Response(connection, watch)

    def _target(self, url: str, method: str = "POST") -> tuple[Pool, RequestHeadEncoder]:
        origin, start = parse_url(url, method)
        if len(self._targets) >= _TARGETS:
            # URLs come from the configuration, but an embedder's may not.
            self._targets.clear()
            self._pools = {origin: pool for origin, pool in self._pools.items() if not pool.unused}
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = Pool(origin, self._connector, self._connections)
        target = pool, RequestHeadEncoder(start)
        if method == "POST":  # a GET is rare: it is not worth a place
            self._targets[url] = target
        return target

    async def close(self) -> None:
        """Cut all connections and wait until they are closed."""
        self._connector.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.gather(*(pool.close() for pool in self._pools.values()))
