"""The handshake: who may open a connection, and how any other is rejected."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.websocket import WebSocketOptions
from support.gateways import config_for, gate
from support.samples import read_error
from support.websockets import HANDSHAKE, speaking

CHAT, RESPONSES = Dialect.CHAT, Dialect.RESPONSES


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
async def test_the_key_is_required(headers: dict[str, str]) -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT, keys=("right",))) as opened:
        async with opened.session.get(f"{opened.url}/v1/responses", headers={**HANDSHAKE, **headers}) as response:
            assert response.status == 401
            assert response.headers["connection"].lower() == "close"
            read_error(RESPONSES, await response.read())
        async with speaking(opened.url, headers={"authorization": "Bearer right"}) as client:
            (error,) = await client.turn()
            assert error["status"] == 502


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "cross-site"}]
)
async def test_a_web_page_of_others_is_no_client(headers: dict[str, str]) -> None:
    """Browsers let any page open a WebSocket to this machine."""
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as opened,
        opened.session.get(f"{opened.url}/v1/responses", headers={**HANDSHAKE, **headers}) as response,
    ):
        assert response.status == 403
        read_error(RESPONSES, await response.read())


async def test_a_page_of_the_gateway_may_use_it() -> None:
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as opened,
        speaking(opened.url, headers={"origin": opened.url}) as client,
    ):
        (error,) = await client.turn()
        assert error["status"] == 502


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/", "//v1/responses", "/v1//responses"])
async def test_each_form_of_the_path(path: str) -> None:
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as opened,
        opened.session.ws_connect(opened.url + path) as socket,
    ):
        assert not socket.closed


@pytest.mark.parametrize("wrong", [{"sec-websocket-version": "99"}, {"sec-websocket-key": "short"}])
async def test_another_handshake_is_rejected(wrong: dict[str, str]) -> None:
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as opened,
        opened.session.get(f"{opened.url}/v1/responses", headers={**HANDSHAKE, **wrong}) as response,
    ):
        assert response.status == 400
        assert "RFC 6455" in read_error(RESPONSES, await response.read()).message


async def test_messages_are_not_compressed() -> None:
    """Codex offers it."""
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as opened,
        opened.session.ws_connect(f"{opened.url}/v1/responses", compress=15) as socket,
    ):
        assert not socket.compress


async def test_switched_off_it_is_answered_426() -> None:
    off = WebSocketOptions(enabled=False)
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT, websocket=off)) as opened,
        opened.session.get(f"{opened.url}/v1/responses", headers=HANDSHAKE) as response,
    ):
        assert response.status == 426
        assert "POST" in read_error(RESPONSES, await response.read()).message
