"""`POST /v1/responses`, what stands next to it, and a stream that the gateway itself has to end."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import openai
import pytest
from aiohttp import ClientSession, web
from aiohttp.typedefs import Handler

from dragoman.dialects import Dialect
from dragoman_server.app import make_app, setup
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.websocket import WebSocketOptions
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.gateways import CHAT, MESSAGES, config_for, gate, served
from support.responses_samples import failed_event, numbered, text_events
from support.samples import PATHS, TEXT, dump, judge, read_error, reply, request, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

RESPONSES = Dialect.RESPONSES
NEW = [(RESPONSES, CHAT), (RESPONSES, MESSAGES), (CHAT, RESPONSES), (MESSAGES, RESPONSES), (RESPONSES, RESPONSES)]
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), NEW)


def stated(client: Dialect, body: dict[str, Any]) -> str:
    """The text of a whole reply."""
    if client is CHAT:
        return str(body["choices"][0]["message"]["content"])
    if client is MESSAGES:
        return str(body["content"][0]["text"])
    return str(body["output"][0]["content"][0]["text"])


@DIRECTIONS
async def test_whole_and_streamed(client: Dialect, upstream: Dialect) -> None:
    scripts = [answer(200, dump(reply(upstream)), headers=[("x-request-id", "req_theirs")])]
    async with (
        ScriptedServer(*scripts, stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        async with entrance.post(client) as response:
            assert response.status == 200
            assert stated(client, await response.json()) == TEXT
            own = response.headers["x-dragoman-request-id"]
            assert own.startswith("req_")
            assert own != "req_theirs"
            if MESSAGES not in (client, upstream):
                assert response.headers["x-request-id"] == "req_theirs"
        whole = await entrance.stream(client)
    if client is upstream:
        assert whole == b"".join(text_stream(upstream))
    else:
        assert judge(client, whole).text == TEXT
    assert [received.target for received in server.requests] == [PATHS[upstream]] * 2


async def test_a_responses_upstream_gets_the_key_as_a_bearer() -> None:
    async with ScriptedServer(answer(200, dump(reply(RESPONSES)))) as server:
        config = config_for(server.url, RESPONSES)
        headers = {"authorization": "Bearer gw", "x-codex-turn-metadata": "{}", "session-id": "s", "cookie": "c=1"}
        async with gate(config) as entrance, entrance.post(RESPONSES, headers=headers) as response:
            assert response.status == 200
    sent = server.requests[0].headers
    assert not {"authorization", "x-codex-turn-metadata", "session-id", "cookie"} & sent.keys()


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, None),
        (b"[]", 400, None),
        (dump({"input": "Hi"}), 400, "model"),
        (dump({"model": "m", "input": 7}), 400, "input"),
        (dump({"model": "m", "input": "Hi", "stream": "yes"}), 400, "stream"),
        (dump({"model": "m", "input": [{"type": "message", "role": "user", "content": 7}]}), 400, "input[0].content"),
    ],
)
async def test_errors_come_in_the_openai_envelope(body: bytes, status: int, param: str | None) -> None:
    async with ScriptedServer(answer(200, b"{}")) as server, gate(config_for(server.url, CHAT)) as entrance:
        code, noted, headers = await entrance.refusal(RESPONSES, body)
        assert (code, noted.type, noted.param) == (status, "invalid_request_error", param)
        assert headers["x-request-id"] == headers["x-dragoman-request-id"]
        assert not server.requests


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
async def test_an_upstreams_refusal_keeps_its_status(upstream: Dialect) -> None:
    error = {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow down", "code": None, "param": None},
    }
    if upstream is not MESSAGES:
        del error["type"]
    script = answer(429, dump(error), headers=[("retry-after", "7")])
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        status, noted, headers = await entrance.refusal(RESPONSES)
    assert (status, headers["retry-after"]) == (429, "7")
    assert "slow down" in noted.message
    assert headers["x-dragoman-request-id"].startswith("req_")


# --- what there is not -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("GET", "/v1/responses/resp_1", "keeps no responses"),
        ("DELETE", "/v1/responses/resp_1", "keeps no responses"),
        ("POST", "/v1/responses/resp_1/cancel", "keeps no responses"),
        ("GET", "/v1/responses/resp_1/input_items", "keeps no responses"),
        ("POST", "/v1/conversations", "keeps no conversations"),
        ("GET", "/v1/conversations/conv_1", "keeps no conversations"),
        ("POST", "/v1/conversations/conv_1/items", "keeps no conversations"),
    ],
)
@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize("without", ["off", "workers"])
async def test_stateful_endpoints_state_what_to_do_instead(
    method: str, path: str, word: str, mounted: bool, without: str
) -> None:
    config = config_for("http://127.0.0.1:9", CHAT, workers=1 if without == "off" else 4)
    if without == "off":
        config = replace(config, state=StateOptions(kind="off"))
    app = web.Application()
    if mounted:
        setup(app, config, prefix="/llm")
    else:
        app = make_app(config)
    async with served(app) as (url, _), ClientSession() as session:
        where = url + ("/llm" if mounted else "") + path
        async with session.request(method, where, headers={"anthropic-version": "2023-06-01"}) as response:
            assert response.status == 404
            noted = read_error(RESPONSES, await response.read())
            assert response.headers["x-dragoman-request-id"].startswith("req_")
    assert word in noted.message
    assert path in noted.message
    if "count" not in word:
        assert "send the whole conversation as `input` with `store: false`" in noted.message
        assert 'several workers need a shared store: "sqlite", "redis" or "postgresql"' in noted.message


async def test_the_sdk_reads_those_as_not_found() -> None:
    async with (
        gate(replace(config_for("http://127.0.0.1:9", CHAT), state=StateOptions(kind="off"))) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client,
    ):
        with pytest.raises(openai.NotFoundError, match="keeps no responses"):
            await client.responses.retrieve("resp_1")
        with pytest.raises(openai.NotFoundError, match="keeps no conversations"):
            await client.conversations.create()


@pytest.mark.parametrize("mounted", [False, True])
async def test_without_a_websocket_it_is_answered_426_and_any_other_get_405(mounted: bool) -> None:
    """Codex falls back to POST at once on a 426; any other status costs it retries (mapping §12.3)."""
    config = config_for("http://127.0.0.1:9", CHAT, websocket=WebSocketOptions(enabled=False))
    app = web.Application()
    setup(app, config)
    if not mounted:
        app = make_app(config)
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "openai-beta": "responses_websockets=2026-02-06",
    }
    async with served(app) as (url, _), ClientSession() as session:
        async with session.get(f"{url}/v1/responses", headers=upgrade) as response:
            assert response.status == 426
            assert "upgrade" not in response.headers
            assert response.headers["connection"].lower() == "close"
            assert "POST" in read_error(RESPONSES, await response.read()).message
        async with session.get(f"{url}/v1/responses") as response:
            assert response.status == 405
            assert response.headers["allow"] == "POST"
            read_error(RESPONSES, await response.read())


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_other_methods_are_405_in_the_openai_envelope(method: str) -> None:
    async with (
        gate(config_for("http://127.0.0.1:9", CHAT)) as entrance,
        entrance.session.request(method, f"{entrance.url}/v1/responses") as response,
    ):
        assert response.status == 405
        assert "POST" in response.headers["allow"]
        read_error(RESPONSES, await response.read())


# --- the last words --------------------------------------------------------------------------------------------------


@DIRECTIONS
async def test_a_stream_that_is_given_up_ends_in_an_error_of_its_own_place(client: Dialect, upstream: Dialect) -> None:
    """An application may cancel a handler, for example at a time limit: the numbers and the response go on."""
    cancelling: list[asyncio.Task[Any]] = []

    @web.middleware
    async def remembered(request: web.Request, handler: Handler) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        cancelling.append(task)
        return await handler(request)

    begun: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:5]), Stall()]
    app = web.Application(middlewares=[remembered])
    async with ScriptedServer(begun) as server, ClientSession() as session:
        setup(app, config_for(server.url, upstream))
        async with served(app) as (url, _):
            response = await session.post(url + PATHS[client], data=dump(request(client, stream=True)))
            whole = b""
            async with asyncio.timeout(30):
                while b"Gr" not in whole:
                    assert not response.content.at_eof(), whole
                    whole += await response.content.readany()
            cancelling[0].cancel()
            async with asyncio.timeout(30):
                whole += await response.read()
    assert b"gave this request up" in whole
    if client is not upstream:  # of a stream of the upstream's own, the gateway knows only where it stands
        result = judge(client, whole)
        assert result.error is not None
        assert result.finish in (None, "failed")
    if client is RESPONSES:
        events = [json.loads(line[5:]) for line in whole.splitlines() if line.startswith(b"data:")]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["id"] == events[0]["response"]["id"]


async def test_an_error_of_the_upstream_within_the_stream_ends_the_reply() -> None:
    frames = numbered(*text_events(["a"])[:5], failed_event("too much"))
    async with ScriptedServer(stream(frames)) as server, gate(config_for(server.url, RESPONSES)) as entrance:
        for client in (CHAT, MESSAGES):
            result = judge(client, await entrance.stream(client))
            assert result.error is not None
            assert "too much" in result.error["message"]


# --- routing ---------------------------------------------------------------------------------------------------------


async def test_a_route_may_hold_for_responses_clients_only() -> None:
    simulator = strict_simulator()
    async with served(simulator) as (url, _):
        providers = {"a": Provider("a", CHAT, url), "b": Provider("b", RESPONSES, url)}
        routes = [Route("*", "b", "sim-text", client=RESPONSES), Route("*", "a", "sim-text")]
        async with gate(Config(providers=providers, routes=routes)) as entrance:
            for client in (CHAT, RESPONSES, MESSAGES):
                async with entrance.post(client) as response:
                    assert response.status == 200, await response.text()
    assert [asked.path for asked in simulator[REQUESTS]] == [PATHS[CHAT], PATHS[RESPONSES], PATHS[CHAT]]


async def test_models_for_responses_clients_have_the_openai_form() -> None:
    async with (
        gate(config_for("http://127.0.0.1:9", RESPONSES)) as entrance,
        entrance.session.get(f"{entrance.url}/v1/models", headers={"originator": "codex_exec"}) as response,
    ):
        assert (await response.json())["object"] == "list"
        assert response.headers["x-dragoman-request-id"].startswith("req_")
