"""The response to a path without an endpoint."""

from __future__ import annotations

import aiohttp
from aiohttp import web

from dragoman_server.endpoints.unknown_path import add_unknown_path
from support.gateways import served


async def _get(_: web.Request) -> web.Response:
    return web.Response(text="own")


async def test_paths_below_the_prefix_only() -> None:
    app = web.Application()
    app.router.add_get("/llm/v1/models", _get, allow_head=False)
    add_unknown_path(app, "/llm")
    async with served(app) as (url, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/llm/models") as response:
            assert response.status == 404
            assert "but /llm/v1/models: the base URL" in (await response.json())["error"]["message"]
        async with session.delete(f"{url}/llm/v1/models") as response:
            assert (response.status, response.headers["allow"]) == (405, "GET")
        async with session.get(f"{url}/models") as response:
            assert (response.status, response.content_type) == (404, "text/plain")
