"""Models, signs of life, unknown paths; and a gateway inside another application."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import ClientSession, web

from dragoman.dialects import Dialect
from dragoman_server.app import make_app, setup
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.observability.installed_version import installed_version, revision
from support.gateways import ALL, CHAT, CROSS, MESSAGES, config_for, gate, served, until
from support.samples import PATHS, TEXT, dump, judge, read_error, reply, request, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

CONFIG = Config(
    providers={"a": Provider("a", CHAT, "http://127.0.0.1:9/v1"), "b": Provider("b", MESSAGES, "http://127.0.0.1:9")},
    routes=[Route("fast", "a", "gpt-x"), Route("claude-*", "b"), Route("deep", "b")],
    models=Models(big="b/opus-y", small="fast"),
)
VERSION = {"anthropic-version": "2023-06-01"}


async def test_models_in_both_envelopes() -> None:
    async with gate(CONFIG) as entrance:
        async with entrance.session.get(f"{entrance.url}/v1/models") as response:
            openais = await response.json()
        async with entrance.session.get(f"{entrance.url}/v1/models", headers=VERSION) as response:
            anthropics = await response.json()
    assert openais["object"] == "list"
    names = [model["id"] for model in openais["data"]]
    assert set(names) == {"fast", "deep", "b/opus-y"}
    assert all(set(model) == {"id", "object", "created", "owned_by"} for model in openais["data"])
    assert [model["id"] for model in anthropics["data"]] == names
    assert all(model["type"] == "model" and model["display_name"] for model in anthropics["data"])
    assert (anthropics["first_id"], anthropics["last_id"], anthropics["has_more"]) == (names[0], names[-1], False)


async def test_models_through_both_sdks() -> None:
    async with gate(CONFIG) as entrance:
        async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client:
            assert {model.id async for model in client.models.list()} == {"fast", "deep", "b/opus-y"}
        async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as other:
            assert {model.id async for model in other.models.list()} == {"fast", "deep", "b/opus-y"}


@pytest.mark.parametrize(("name", "provider"), [("fast", "a"), ("claude-any", "b"), ("b/x/y", "b")])
async def test_one_model_through_both_sdks(name: str, provider: str) -> None:
    """A model that only a pattern matches is found too: a request for it would be served."""
    async with gate(CONFIG) as entrance:
        async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client:
            model = await client.models.retrieve(name)
            assert (model.id, model.owned_by) == (name, provider)
        async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as other:
            assert (await other.models.retrieve(name)).id == name


async def test_a_model_that_is_served_by_no_one_is_not_there() -> None:
    async with gate(replace(CONFIG, models=Models())) as entrance:
        for headers, client in (({}, CHAT), (VERSION, MESSAGES)):
            async with entrance.session.get(f"{entrance.url}/v1/models/gpt-z", headers=headers) as response:
                assert response.status == 404
                assert "known models: fast, deep" in read_error(client, await response.read()).message


@pytest.mark.parametrize(("method", "path"), [("GET", "/health"), ("GET", "/"), ("HEAD", "/"), ("HEAD", "/health")])
async def test_T62_signs_of_life(method: str, path: str) -> None:
    async with gate(CONFIG) as entrance, entrance.session.request(method, entrance.url + path) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        body = await response.read()
    if method == "HEAD":
        assert body == b""
    else:
        assert json.loads(body) == {"status": "ok", "version": installed_version(), "revision": revision()}


@pytest.mark.parametrize(
    ("method", "path", "headers", "client", "status"),
    [
        ("POST", "/v1/nothing", {}, CHAT, 404),
        ("GET", "/nothing", {}, CHAT, 404),
        ("POST", "/v1/messages/nothing", {}, MESSAGES, 404),
        ("GET", "/v1/files", VERSION, MESSAGES, 404),
        ("GET", "/v1/chat/completions", {}, CHAT, 405),
        ("GET", "/v1/messages", {}, MESSAGES, 405),
        ("DELETE", "/v1/models", VERSION, MESSAGES, 405),
    ],
)
async def test_unknown_paths_and_methods_answer_in_the_clients_envelope(
    method: str, path: str, headers: dict[str, str], client: Dialect, status: int
) -> None:
    async with (
        gate(CONFIG) as entrance,
        entrance.session.request(method, entrance.url + path, headers=headers) as response,
    ):
        assert response.status == status
        noted = read_error(client, await response.read())
        assert path in noted.message
        if status == 405:
            assert response.headers["allow"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/responses", "/v1/responses"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/audio/speech", "/v1/audio/speech"),
        ("/v1/files", None),
        ("/v1/messages/batches", None),
    ],
)
async def test_a_base_url_that_is_wrong_by_its_version_is_reported(path: str, meant: str | None) -> None:
    async with gate(CONFIG) as entrance, entrance.session.post(entrance.url + path, data=b"{}") as response:
        assert response.status == 404
        message = json.dumps(await response.json())
    assert f"there is no {path} here" in message
    assert (f", but {meant}: the base URL of" in message) is bool(meant)


# --- inside another application --------------------------------------------------------------------------------------


async def _own(request: web.Request) -> web.Response:
    return web.Response(text="own")


@web.middleware
async def _marking(request: web.Request, handler: Any) -> web.StreamResponse:
    response: web.StreamResponse = await handler(request)
    if not response.prepared:
        response.headers["x-marked"] = "yes"
    return response


@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_mounted_in_another_application(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(reply(upstream))), stream(text_stream(upstream))) as server:
        app = web.Application(middlewares=[_marking])
        app.router.add_get("/", _own)
        setup(app, config_for(server.url, upstream), prefix="/llm/")
        app.router.add_get("/llm/v1/own", _own)
        async with served(app) as (url, _), ClientSession() as session:
            for own in ("/", "/llm/v1/own"):
                async with session.get(url + own) as response:
                    assert await response.text() == "own"
            async with session.post(f"{url}/llm{PATHS[client]}", data=dump(request(client))) as response:
                assert response.status == 200
                assert response.headers["x-marked"] == "yes"
            streamed = dump(request(client, stream=True))
            async with session.post(f"{url}/llm{PATHS[client]}", data=streamed) as response:
                whole = await response.read()
                if client is upstream:
                    assert whole == b"".join(text_stream(upstream))
                else:
                    assert judge(client, whole).text == TEXT
            async with session.get(f"{url}/llm/v1/models") as response:
                assert response.status == 200
            async with session.post(f"{url}/llm{PATHS[client]}", data=b"[]") as response:
                read_error(client, await response.read())
            async with session.post(url + PATHS[client], data=dump(request(client))) as response:
                assert response.status == 404  # the host application's own


async def test_two_gateways_in_one_application() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as chat,
        ScriptedServer(answer(200, dump(reply(MESSAGES)))) as messages,
    ):
        app = web.Application()
        first = setup(app, config_for(chat.url, CHAT), prefix="/one")
        second = setup(app, config_for(messages.url, MESSAGES), prefix="/two")
        assert first is not second
        app.add_subapp("/three", make_app(config_for(chat.url, CHAT)))
        async with served(app) as (url, _), ClientSession() as session:
            for prefix, asked in (("/one", chat), ("/two", messages), ("/three", chat)):
                before = len(asked.requests)
                for client in (CHAT, MESSAGES):
                    async with session.post(f"{url}{prefix}{PATHS[client]}", data=dump(request(client))) as response:
                        assert response.status == 200
                assert len(asked.requests) == before + 2


@pytest.mark.parametrize(("client", "upstream"), CROSS)
async def test_cleanup_closes_the_upstream_connections(client: Dialect, upstream: Dialect) -> None:
    """Idle ones and those of open streams alike."""
    open_stream: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:3]), Stall()]
    async with ScriptedServer(answer(200, dump(reply(upstream))), open_stream) as server:
        app = web.Application()
        setup(app, config_for(server.url, upstream), drain=0.05)
        async with ClientSession() as session:
            async with served(app) as (url, _):
                async with session.post(url + PATHS[client], data=dump(request(client))) as response:
                    json.loads(await response.read())
                assert len(server.open) == 1
                response = await session.post(url + PATHS[client], data=dump(request(client, stream=True)))
                await response.content.readany()
            await until(lambda: not server.open)
            assert b"shutting down" in await response.read()
