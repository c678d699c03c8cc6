"""The requests to upstreams outside of translated exchanges, and the transport that all requests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from dragoman.aio import (
    Http11Transport,
    StreamTimers,
    Transport,
    UpstreamRequest,
    UpstreamResponse,
)
from dragoman.errors import UpstreamUnreachable
from dragoman_server.config.schema import Server
from dragoman_server.observability.metric_families import Totals
from dragoman_server.observability.pools import add_pools
from dragoman_server.proxy.open_requests import OpenRequests
from dragoman_server.routing.upstream_models import BODY_MAX


class UpstreamCalls:
    """The transport of one gateway, and its requests that are open.

    Args:
        transport: The transport; None: `open` creates that of the configuration.
        requests: The open requests of clients.
    """

    def __init__(self, transport: Transport | None, requests: OpenRequests) -> None:
        self._transport = transport
        self._open = requests

    def open(self, server: Server) -> None:
        """Create the transport. Call it in the event loop."""
        if self._transport is None:
            if server.transport == "aiohttp":
                from dragoman.aio import AiohttpTransport  # 0.1 MB of memory, for gateways that use it

                self._transport = AiohttpTransport(server.connections, trust_env=True)
            else:
                self._transport = Http11Transport(server.connections)

    async def close(self) -> None:
        """Close the transport and all its connections."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    @property
    def transport(self) -> Transport:
        """The transport. Raises UpstreamUnreachable if the gateway is not open."""
        if self._transport is None:
            raise UpstreamUnreachable("the gateway is not open")
        return self._transport

    @asynccontextmanager
    async def opened(
        self, call: UpstreamRequest, request: web.Request
    ) -> AsyncIterator[tuple[UpstreamResponse, StreamTimers]]:
        """Send a request, and close its response at the end of the block.

        `request` is the client's; `stop` waits for the block. Raises UpstreamError.
        """
        transport = self.transport
        timers = self._open.add(request, call.timeouts)
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
        transport = self.transport
        timers = self._open.add(request, call.timeouts) if request is not None else StreamTimers(call.timeouts)
        try:
            answer = await transport.open(call, timers)
            try:
                return answer.status, answer.headers, await answer.read(limit)
            finally:
                await answer.close()
        finally:
            self._open.remove(timers)

    async def fetch_list(self, call: UpstreamRequest) -> tuple[int, bytes]:
        """Send a request for a list of models, and return status and body of the response."""
        status, _, body = await self.fetch(call, BODY_MAX)
        return status, body

    def add_pools(self, totals: Totals) -> None:
        """Add the connections of the transport."""
        add_pools(self._transport, totals)
