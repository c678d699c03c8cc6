"""`POST /v1/responses/compact`: returns a conversation in which a summary has taken the place of older items."""

from __future__ import annotations

from aiohttp import web

from dragoman.gateway import STORED_DIALECT
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.request_keys import COMPACT


class CompactEndpoint:
    """The endpoint of one gateway. `proxy/compaction.py` compacts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Handle the request as any other of the Responses API. Its mark requests the compaction."""
        request[COMPACT] = True
        return await self._gateway.handler.answer(request, STORED_DIALECT)
