"""Each turn of a WebSocket is a request of its own: for keys, limits, usage, hooks, retries and the load."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server import ExchangeRecord, Principal
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.config import Overload
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.proxy.hooks import Hooks
from support.gateways import config_for, gate, until
from support.named_keys import keyed, made, spent
from support.samples import TEXT, dump, text_stream
from support.sockets import ScriptedServer, answer, stream
from support.websockets import speaking, text_of

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


async def test_a_limit_of_a_key_ends_a_turn_and_not_the_connection() -> None:
    key, alice = made(requests_per_minute=2, daily_tokens=1000)
    headers = {"authorization": f"Bearer {key}"}
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(keyed(server.url, CHAT, alice)) as opened,
        speaking(opened.url, headers=headers) as client,
    ):
        for _ in range(2):
            assert text_of(await client.turn()) == TEXT
        (error,) = await client.turn()
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(error["error"]["headers"]["retry-after"]) > 0
        (error,) = await client.turn()
        assert error["status"] == 429
        assert len(server.requests) == 2
        assert (await spent(opened, alice))["daily_tokens"] == 28


async def test_a_key_that_is_revoked_ends_the_next_turn() -> None:
    key, alice = made()
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(keyed(server.url, CHAT, alice)) as opened,
        speaking(opened.url, headers={"authorization": f"Bearer {key}"}) as client,
    ):
        assert text_of(await client.turn()) == TEXT
        opened.gateway.reconfigure(keyed(server.url, CHAT, made("bob")[1]))
        (error,) = await client.turn()
        assert (error["status"], error["error"]["code"]) == (401, "invalid_api_key")
        (error,) = await client.turn(generate=False)
        assert error["status"] == 401


async def test_a_model_that_the_key_may_not_use() -> None:
    key, alice = made(models=("small-*",))
    async with (
        gate(keyed("http://127.0.0.1:9", CHAT, alice)) as opened,
        speaking(opened.url, headers={"authorization": f"Bearer {key}"}) as client,
    ):
        for generate in (True, False):
            (error,) = await client.turn(model="big", generate=generate)
            assert (error["status"], error["error"]["code"]) == (403, "model_not_permitted")


async def test_each_turn_is_booked(tmp_path: Path) -> None:
    """With the usage that the upstream counted. A warm-up has none."""
    book = tmp_path / "usage.jsonl"
    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        config = replace(config_for(server.url, CHAT), usage=UsageOptions(kind="jsonl", path=str(book)))
        async with gate(config) as opened, speaking(opened.url) as client:
            await client.turn(generate=False)
            for _ in range(2):
                await client.turn()
    rows = [json.loads(line) for line in book.read_text().splitlines()]
    assert [(row["client"], row["output"], row["ended"]) for row in rows] == [("responses", 9, "completed")] * 2


async def test_a_turn_goes_to_another_provider_before_its_first_event() -> None:
    failing = answer(500, dump({"error": {"message": "no", "type": "server_error", "param": None, "code": None}}))
    async with ScriptedServer(failing) as first, ScriptedServer(stream(text_stream(MESSAGES))) as second:
        config = Config(
            providers={"up1": Provider("up1", CHAT, first.url), "up2": Provider("up2", MESSAGES, second.url)},
            routes=[Route("*", targets=(RouteTarget("up1"), RouteTarget("up2")))],
            retries=RetryOptions(backoff=0.01, backoff_max=0.02),
        )
        async with gate(config) as opened, speaking(opened.url) as client:
            events = await client.turn(input="one")
            assert text_of(events) == TEXT
            events = await client.turn(input="two", previous_response_id=events[-1]["response"]["id"])
            assert text_of(events) == TEXT
            body = second.requests[-1].body.decode()
            assert body.index('"one"') < body.index('"two"')


async def test_hooks_have_each_turn_as_a_request() -> None:
    seen: list[str] = []
    ended: list[ExchangeRecord[Any]] = []

    async def authorize(request: web.Request) -> Principal[Any] | None:
        seen.append(f"{request.method} {request.path} {request.headers['x-user']}")
        return Principal(request.headers["x-user"])

    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        hooks = Hooks(authorize=authorize, on_end=ended.append)
        async with (
            gate(config_for(server.url, CHAT), hooks=hooks) as opened,
            speaking(opened.url, headers={"x-user": "kim"}) as client,
        ):
            assert text_of(await client.turn()) == TEXT
            await until(lambda: ended)
    assert seen == ["GET /v1/responses kim", "POST /v1/responses kim"]
    assert ended[0].principal is not None


async def test_the_text_of_a_hook_s_rejection_reaches_the_turn() -> None:
    async def authorize(request: web.Request) -> Principal[Any]:
        if request.method == "POST":
            raise web.HTTPForbidden(text="your plan has no such model")
        return Principal("kim")

    async with (
        gate(config_for("http://127.0.0.1:9", CHAT), hooks=Hooks(authorize=authorize)) as opened,
        speaking(opened.url) as client,
    ):
        (error,) = await client.turn()
    assert (error["status"], error["error"]["message"]) == (403, "your plan has no such model")


async def test_load_is_shed_by_turns() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        config = config_for(server.url, CHAT, overload=Overload(memory=1))
        async with gate(config_for(server.url, CHAT)) as opened, speaking(opened.url) as client:
            assert text_of(await client.turn()) == TEXT
            opened.gateway.reconfigure(config)
            await until(lambda: opened.gateway.services.instruments.load.reason() is not None)
            (error,) = await client.turn()
            assert (error["status"], error["headers"]["retry-after"]) == (503, "5")
