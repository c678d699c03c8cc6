"""Web pages of other origins that may use the gateway, and the headers by which their browsers know."""

from __future__ import annotations

import pytest
from aiohttp import web

from dragoman_server.app import setup
from dragoman_server.config.provider import Secret
from support.gateways import ALL, CHAT, MESSAGES, config_for, gate, served
from support.samples import PATHS, dump, request, text_stream
from support.sockets import ScriptedServer, stream

PAGE = "https://chat.example.com"
NOWHERE = "http://127.0.0.1:9"
ASKS = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,x-api-key",
}
KEYS = pytest.mark.parametrize("keys", [(), (Secret("k"),)], ids=["without keys", "with keys"])


@KEYS
@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/v1/models/x", "/v1/dragoman/explain", "/health"])
async def test_a_preflight_of_an_allowed_page_is_answered_without_a_key(path: str, keys: tuple[Secret, ...]) -> None:
    async with (
        gate(config_for(NOWHERE, CHAT, keys=keys, cors_origins=(PAGE,))) as entrance,
        entrance.session.options(entrance.url + path, headers=ASKS) as response,
    ):
        assert response.status == 204
        assert response.headers["access-control-allow-origin"] == PAGE
        assert response.headers["access-control-allow-methods"] == "GET, HEAD, POST, DELETE"
        assert response.headers["access-control-allow-headers"] == "content-type,x-api-key"
        assert response.headers["vary"] == "Origin"


@pytest.mark.parametrize("headers", [{**ASKS, "origin": "https://evil.example"}, {**ASKS, "origin": "null"}, {}])
async def test_any_other_preflight_is_refused(headers: dict[str, str]) -> None:
    async with (
        gate(config_for(NOWHERE, CHAT, cors_origins=(PAGE,))) as entrance,
        entrance.session.options(entrance.url + PATHS[MESSAGES], headers=headers) as response,
    ):
        assert response.status == 403
        assert "access-control-allow-origin" not in response.headers
        assert (await response.json())["type"] == "error"


async def test_without_origins_there_is_no_preflight() -> None:
    async with (
        gate(config_for(NOWHERE, CHAT)) as entrance,
        entrance.session.options(entrance.url + PATHS[CHAT], headers=ASKS) as response,
    ):
        assert response.status == 405
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


async def test_names_that_are_no_headers_are_not_repeated() -> None:
    sent = {**ASKS, "access-control-request-headers": "x-a; y"}
    async with (
        gate(config_for(NOWHERE, CHAT, cors_origins=("*",))) as entrance,
        entrance.session.options(entrance.url + PATHS[CHAT], headers=sent) as response,
    ):
        assert response.status == 204
        assert "access-control-allow-headers" not in response.headers
        assert response.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_a_stream_and_an_error_are_shown_to_the_page(client: str, upstream: str) -> None:
    frames = text_stream(upstream, counted=client is not upstream)  # type: ignore[arg-type]
    async with (
        ScriptedServer(stream(frames, pause=0.001)) as server,
        gate(config_for(server.url, upstream, cors_origins=(PAGE,))) as entrance,  # type: ignore[arg-type]
    ):
        for body, status in ((dump(request(client, stream=True)), 200), (b"[]", 400)):  # type: ignore[arg-type]
            async with entrance.post(client, body, headers={"origin": PAGE}) as response:  # type: ignore[arg-type]
                await response.read()
                assert response.status == status
                assert response.headers["access-control-allow-origin"] == PAGE
                assert response.headers["access-control-expose-headers"] == "*"


@KEYS
async def test_a_page_that_is_not_allowed_gets_no_headers(keys: tuple[Secret, ...]) -> None:
    headers = {"origin": "https://evil.example", "x-api-key": "k"}
    async with (
        gate(config_for(NOWHERE, CHAT, keys=keys, cors_origins=(PAGE,))) as entrance,
        entrance.session.get(entrance.url + "/v1/models", headers=headers) as response,
    ):
        assert response.status == (200 if keys else 403)
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["vary"] == "Origin"


async def test_an_embedded_gateway_leaves_its_hosts_replies_alone() -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    setup(app, config_for(NOWHERE, CHAT, cors_origins=(PAGE,)), prefix="/llm")
    async with gate(config_for(NOWHERE, CHAT)) as entrance, served(app) as (url, _):
        async with entrance.session.get(url, headers={"origin": PAGE}) as response:
            assert not [name for name in response.headers if name.lower().startswith("access-control")]
        async with entrance.session.options(url, headers=ASKS) as response:
            assert response.status == 405
        async with entrance.session.options(f"{url}/llm{PATHS[CHAT]}", headers=ASKS) as response:
            assert response.status == 204
