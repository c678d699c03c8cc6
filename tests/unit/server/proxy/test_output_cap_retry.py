"""A request without an output limit is sent once more if the upstream's refusal names a lower one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config, Models
from dragoman_server.proxy.output_cap_retry import REFUSALS
from support.gateways import CHAT, MESSAGES, Gate, config_for, gate
from support.samples import dump, reply, text_stream
from support.sockets import ScriptedServer, Step, answer, stream

RESPONSES = Dialect.RESPONSES
clients = pytest.mark.parametrize("client", [CHAT, RESPONSES])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
LIST = answer(200, dump({"data": [{"type": "model", "id": "m", "max_tokens": 77_000}], "has_more": False}))


def refusal(message: str, status: int = 400) -> list[Step]:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return answer(status, dump(body))


TOO_HIGH = refusal("max_tokens: 64000 > 20000, which is the maximum allowed number of output tokens for m")


def good(streamed: bool) -> list[Step]:
    return stream(text_stream(MESSAGES)) if streamed else answer(200, dump(reply(MESSAGES)))


def caps(server: ScriptedServer) -> list[int]:
    return [json.loads(each.body)["max_tokens"] for each in server.requests if each.body]


async def ask(entrance: Gate, client: Dialect, **fields: Any) -> tuple[int, str, bytes]:
    """The answer to a request; a Chat request has no limit of its own."""
    limits = {"max_completion_tokens": None} if client is CHAT else {}
    async with entrance.post(client, **{**limits, **fields}) as response:
        body = await response.read()
        return response.status, response.headers.get("x-dragoman-loss", ""), body


def with_route(config: Config) -> Config:
    route = Route("*", targets=(RouteTarget("up"),))
    return replace(config, routes=[route], retries=RetryOptions(backoff=0.01, backoff_max=0.02, failures=0))


@clients
@STREAMED
@pytest.mark.parametrize("plan", [False, True], ids=["plain", "attempts"])
async def test_a_refusal_is_followed_by_one_request_with_the_limit(client: Dialect, streamed: bool, plan: bool) -> None:
    async with ScriptedServer(TOO_HIGH, good(streamed), good(streamed)) as server:
        config = config_for(server.url, MESSAGES)
        async with gate(with_route(config) if plan else config) as entrance:
            status, losses, body = await ask(entrance, client, stream=streamed)
            assert (status, losses) == (200, "cap_added=1, cap_clamped=1"), body
            assert (await ask(entrance, client, stream=streamed))[:2] == (200, "cap_added=1") or streamed
        assert caps(server) == [64_000, 20_000, 20_000]  # the limit is remembered


@clients
@pytest.mark.parametrize("status", [400, 422])
async def test_a_second_refusal_is_the_clients(client: Dialect, status: int) -> None:
    again = refusal("max_tokens: 20000 > 10000", status)
    async with ScriptedServer(TOO_HIGH, again, again) as server:
        async with gate(config_for(server.url, MESSAGES)) as entrance:
            got, _, body = await ask(entrance, client)
        assert (got, caps(server)) == (status, [64_000, 20_000])
        assert b"max_tokens: 20000 > 10000" in body


@clients
@pytest.mark.parametrize("status", sorted(REFUSALS))
async def test_every_status_of_a_refusal(client: Dialect, status: int) -> None:
    async with ScriptedServer(refusal("Range of max_tokens should be [1, 8192]", status), good(False)) as server:
        async with gate(config_for(server.url, MESSAGES)) as entrance:
            assert (await ask(entrance, client))[0] == 200
        assert caps(server) == [64_000, 8192]


@clients
async def test_another_refusal_is_the_clients_as_it_was(client: Dialect) -> None:
    async with ScriptedServer(refusal("prompt is too long: 210000 tokens > 200000 maximum"), good(False)) as server:
        async with gate(config_for(server.url, MESSAGES)) as entrance:
            status, _, body = await ask(entrance, client)
        assert (status, caps(server)) == (400, [64_000])
        assert b"210000 tokens > 200000 maximum" in body


@pytest.mark.parametrize(("client", "field"), [(CHAT, "max_tokens"), (RESPONSES, "max_output_tokens"), (MESSAGES, "")])
async def test_a_limit_of_the_client_is_not_changed(client: Dialect, field: str) -> None:
    async with ScriptedServer(TOO_HIGH, good(False)) as server:
        async with gate(config_for(server.url, MESSAGES)) as entrance:
            status, _, _ = await ask(entrance, client, **{field or "max_tokens": 64_000})
        assert (status, caps(server)) == (400, [64_000])


@clients
async def test_the_limit_of_the_upstreams_list(client: Dialect) -> None:
    async with ScriptedServer(LIST, good(False)) as server:
        config = replace(config_for(server.url, MESSAGES), models=Models(unknown="pass", discover=True))
        provider = Provider("up", MESSAGES, server.url)
        async with gate(config) as entrance:
            models = await entrance.gateway.services.known_models.fetched(config.providers["up"])
            assert models is not None
            assert models[0].output_limit == 77_000
            status, losses, _ = await ask(entrance, client)
            assert entrance.gateway.services.loaded.output_limits.profile(provider, "m").default_max_tokens == 77_000
            entrance.gateway.reconfigure(replace(config))
            assert entrance.gateway.services.loaded.output_limits.profile(provider, "m").default_max_tokens == 77_000
        assert (status, losses, caps(server)) == (200, "cap_added=1", [77_000])
