"""The requests to upstreams outside of translated exchanges, and the transport that all requests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from dragoman.aio import Http11Transport, PoolOptions, StreamTimers, Transport, UpstreamRequest, UpstreamResponse
from dragoman.errors import UpstreamUnreachable
from dragoman_server.config.schema import Config, Server
from dragoman_server.observability.known_secrets import learn_renewed
from dragoman_server.observability.metric_families import UPSTREAM_CONNECTIONS, UPSTREAM_WAITING, Totals
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.routing.upstream_models import BODY_MAX

if TYPE_CHECKING:
    from dragoman_server.credentials.credentials import Credentials
    from dragoman_server.credentials.transport import ProviderTransport


def create_transport(server: Server) -> Transport:
    """Return the transport that the settings name. Call it in the event loop."""
    if server.transport == "aiohttp":
        from dragoman.aio import AiohttpTransport  # 0.1 MB of memory, for gateways that use it

        return AiohttpTransport(server.connections, trust_env=True)
    return Http11Transport(server.connections)


class UpstreamCalls:
    """The transport of one gateway, and its requests that are open.

    Args:
        transport: The transport; None: `open` creates that of the configuration.
        requests: The open requests of clients.
        any_provider: True if requests may go to providers that are not in the configuration.
    """

    def __init__(self, transport: Transport | None, requests: OpenRequests, *, any_provider: bool = False) -> None:
        self._transport = transport
        self._open = requests
        self._any_provider = any_provider
        self._pools: PoolOptions | None = None
        self._is_open = False
        self._completing: ProviderTransport | None = None
        self.credentials: Credentials | None = None
        """The credentials of providers; None as long as no provider has one."""

    def open(self, config: Config) -> None:
        """Create the transport, and begin to fetch credentials. Call it in the event loop."""
        self._is_open, self._pools = True, config.server.connections
        if self._transport is None:
            self._transport = create_transport(config.server)
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Use the credentials and the proxies of this configuration, if the transport is open."""
        providers = config.providers.values()
        if not self._is_open or self._transport is None:
            return
        if self._completing is None and (self._any_provider or any(each.has_own_way for each in providers)):
            from dragoman_server.credentials.credentials import Credentials
            from dragoman_server.credentials.transport import ProviderTransport

            self.credentials = Credentials(learn_renewed)
            self._completing = ProviderTransport(self._transport, self.credentials, self._by_proxy)
            self._transport = self._completing
        if self.credentials is not None:
            self.credentials.configure(providers)

    def _by_proxy(self, proxy: str) -> Transport:
        return Http11Transport(self._pools, proxy=proxy)

    async def close(self) -> None:
        """Close the transport and all its connections."""
        if self.credentials is not None:
            await self.credentials.close()
        if self._transport is not None:
            await self._transport.close()
            self._transport = self._completing = self.credentials = None
        self._is_open = False

    @property
    def transport(self) -> Transport:
        """The transport. Raises UpstreamUnreachable if the gateway is not open."""
        if self._transport is None:
            raise UpstreamUnreachable("the gateway is not open")
        return self._transport

    @asynccontextmanager
    async def opened(
        self, call: UpstreamRequest, request: web.Request | None
    ) -> AsyncIterator[tuple[UpstreamResponse, StreamTimers]]:
        """Send a request, and close its response at the end of the block.

        `request` is the client's, and `stop` waits for the block if there is one. Raises UpstreamError.
        """
        transport = self.transport
        timers = StreamTimers(call.timeouts) if request is None else self._open.add(request, call.timeouts)
        try:
            answer = await transport.open(call, timers)
            try:
                yield answer, timers
            finally:
                await answer.close()
        finally:
            self._open.remove(timers)

    async def fetch(
        self, call: UpstreamRequest, limit: int, request: web.Request | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request, and return status, headers and body of a response of up to `limit` bytes.

        `request` is the client's. Without one, `stop` does not wait for the response. Raises
        UpstreamError and LimitExceeded.
        """
        async with self.opened(call, request) as (answer, _):
            return answer.status, answer.headers, await answer.read(limit)

    async def fetch_list(self, call: UpstreamRequest) -> tuple[int, bytes]:
        """Send a request for a list of models, and return status and body of the response."""
        status, _, body = await self.fetch(call, BODY_MAX)
        return status, body

    def add_pools(self, totals: Totals) -> None:
        """Add the connections of the transport."""
        if self._completing is None:
            add_pools(self._transport, totals)
        else:
            for transport in (self._completing.inner, *self._completing.proxied):
                add_pools(transport, totals)


def add_pools(transport: Transport | None, totals: Totals) -> None:
    """Add the connections of a transport on plain sockets. Others do not report theirs."""
    if isinstance(transport, Http11Transport):
        for pool in transport.pools():
            totals.put(UPSTREAM_CONNECTIONS, (pool.origin, "busy"), pool.busy)
            totals.put(UPSTREAM_CONNECTIONS, (pool.origin, "idle"), pool.idle)
            totals.put(UPSTREAM_WAITING, (pool.origin,), pool.waiting)
