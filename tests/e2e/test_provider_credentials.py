"""A provider that refuses the gateway's own key: no client gets a 401, in any form of request."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.prometheus import exposition
from support.exposed import read_exposition, total
from support.gateways import Gate, config_for, gate
from support.samples import dump
from support.sockets import Pause, ScriptedServer, answer
from support.websockets import speaking

CHAT, MESSAGES, RESPONSES, *_ = Dialect
OWN = "sk-of-the-gateway-1234567890"
TURN = [{"role": "user", "content": "Hi"}]
MISLEADING = re.compile(r"api.?key|log.?in|authentication|unauthorized|sk-of", re.IGNORECASE)
WORDS = dump(
    {
        "type": "error",
        "error": {
            "type": "authentication_error",
            "message": f"Incorrect API key provided: {OWN}. Log in to find yours.",
            "code": "invalid_api_key",
            "param": None,
        },
    }
)


def with_key(url: str, upstream: Dialect, *, auth: Auth = Auth.CONFIGURED, **server: Any) -> Config:
    config = config_for(url, upstream, **server)
    key = Secret(OWN) if auth is Auth.CONFIGURED else None
    endpoints = ("embeddings", "audio")
    provider = Provider("up", upstream, url, api_key=key, auth=auth, endpoints=endpoints)
    return replace(config, providers={"up": provider}, state=StateOptions(kind="memory"))


Form = Callable[[Gate], Awaitable[tuple[int, str]]]
"""Sends a request, and returns status and body."""


def posted(path: str, **fields: Any) -> Form:
    async def send(entrance: Gate) -> tuple[int, str]:
        body = {"model": "m", **fields}
        async with entrance.session.post(entrance.url + path, json=body) as response:
            assert response.headers.get("x-should-retry") == ("false" if response.status == 502 else None)
            return response.status, await response.text()

    return send


async def uploaded(entrance: Gate) -> tuple[int, str]:
    form = aiohttp.FormData()
    form.add_field("model", "m")
    form.add_field("file", b"RIFF", filename="a.wav")
    async with entrance.session.post(f"{entrance.url}/v1/audio/transcriptions", data=form) as response:
        return response.status, await response.text()


async def on_websocket(entrance: Gate) -> tuple[int, str]:
    async with speaking(entrance.url) as client:
        (error,) = await client.turn()
        return int(error["status"]), json.dumps(error)


FORMS: dict[str, Form] = {
    "chat": posted("/v1/chat/completions", messages=TURN),
    "chat stream": posted("/v1/chat/completions", messages=TURN, stream=True),
    "messages": posted("/v1/messages", messages=TURN, max_tokens=9),
    "messages stream": posted("/v1/messages", messages=TURN, max_tokens=9, stream=True),
    "responses": posted("/v1/responses", input="Hi"),
    "responses stream": posted("/v1/responses", input="Hi", stream=True),
    "background stream": posted("/v1/responses", input="Hi", background=True, stream=True),
    "websocket": on_websocket,
    "embeddings": posted("/v1/embeddings", input="Hi"),
    "form": uploaded,
}
COUNTS: dict[str, Form] = {
    "count": posted("/v1/messages/count_tokens", messages=TURN),
    "input_tokens": posted("/v1/responses/input_tokens", input="Hi"),
}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", [*FORMS, *COUNTS])
async def test_a_key_of_the_gateway_is_none_of_the_clients(
    form: str, upstream: Dialect, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    if form in COUNTS and upstream is CHAT:
        pytest.skip("it counts no tokens")
    async with ScriptedServer(answer(status, WORDS)) as server, gate(with_key(server.url, upstream)) as entrance:
        answered, body = await (FORMS | COUNTS)[form](entrance)
        samples = read_exposition(exposition(entrance.gateway.metrics.alone()))
        receipts = list(entrance.gateway.receipts.newest())
    assert answered == 502
    assert "the provider up refused" in body
    assert not MISLEADING.search(body)
    assert json.loads(body)["error"]["type"] in ("api_error", "server_error")
    assert OWN not in caplog.text
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    if form in COUNTS:
        assert f"up did not count tokens for m ({status})" in warning
        return
    assert f" refused with {status}" in warning
    # The books keep what the provider stated.
    kind = "authentication" if status == 401 else "permission"
    assert total(samples, "dragoman_upstream_errors_total", provider="up", kind=kind) == 1
    assert total(samples, "dragoman_requests_total", ended="refused", status="5xx") == 1
    shown = json.loads(receipts[0].json())
    assert (shown["ended"], shown["status"], shown["error"]["kind"], shown["error"]["status"]) == (
        ("refused", 502, kind, status)
    )


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("form", FORMS)
async def test_a_key_that_is_passed_through_is_the_clients(form: str, upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(401, WORDS)) as server,
        gate(with_key(server.url, upstream, auth=Auth.PASSTHROUGH)) as entrance,
    ):
        answered, body = await FORMS[form](entrance)
        samples = read_exposition(exposition(entrance.gateway.metrics.alone()))
    assert answered == 401
    assert "Incorrect API key provided" in body
    assert total(samples, "dragoman_upstream_errors_total", kind="client_key") == 1
    assert total(samples, "dragoman_upstream_errors_total") == 1


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
async def test_background_that_fails_later(upstream: Dialect) -> None:
    """Without a stream the client is answered before the upstream is: the error is in the response's last state."""
    async with ScriptedServer(answer(401, WORDS)) as server, gate(with_key(server.url, upstream)) as entrance:
        answered, body = await posted("/v1/responses", input="Hi", background=True)(entrance)
        path = f"{entrance.url}/v1/responses/{json.loads(body)['id']}"
        async with asyncio.timeout(30):
            while json.loads(body)["status"] in ("queued", "in_progress"):
                async with entrance.session.get(path) as response:
                    answered, body = response.status, await response.text()
    assert (answered, json.loads(body)["status"]) == (200, "failed")
    assert "the provider up refused" in body
    assert not MISLEADING.search(body)


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_stream_that_began_before_the_upstream_answered(client: Dialect) -> None:
    slow = [Pause(0.2), *answer(401, WORDS)]
    async with ScriptedServer(slow) as server:
        config = with_key(server.url, CHAT, timeouts=Timeouts(early_reply=0.02))
        async with gate(config) as entrance:
            body = (await entrance.stream(client)).decode()
    assert "the provider up refused" in body
    assert not MISLEADING.search(body)


async def test_the_sdks_raise_no_authentication_error_and_do_not_repeat_the_request() -> None:
    async with ScriptedServer(answer(401, WORDS)) as server, gate(with_key(server.url, CHAT)) as entrance:
        async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="mine") as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="mine") as other:
            with pytest.raises(anthropic.InternalServerError):
                await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
    assert len(server.requests) == 2


async def test_a_model_list_leaves_out_the_provider() -> None:
    async with (
        ScriptedServer(answer(401, WORDS)) as server,
        gate(with_key(server.url, CHAT)) as entrance,
        entrance.session.get(f"{entrance.url}/v1/models") as response,
    ):
        assert (response.status, (await response.json())["data"]) == (200, [])
