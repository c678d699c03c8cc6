"""`GET /v1/models` has what the upstreams list, by the names that clients can use, in the form that their SDKs read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from dragoman.dialects import Dialect
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.simulator import SCRIPTS
from oracles.simulator import strict_simulator
from support.commands import command
from support.gateways import CHAT, MESSAGES, config_for, gate, served, until
from support.model_server import model_server
from support.named_keys import made, with_keys
from support.samples import dump, read_error
from support.sockets import ScriptedServer, Stall, answer
from support.waiting import until_true

VERSION = {"anthropic-version": "2023-06-01"}


def listing(*names: str, **more: Any) -> Any:
    """The script of an upstream that lists these models."""
    return answer(200, dump({"object": "list", "data": [{"id": name, "created": 9} for name in names], **more}))


async def names(entrance: Any, headers: dict[str, str] | None = None, query: str = "") -> list[str]:
    """The names of the list."""
    async with entrance.session.get(f"{entrance.url}/v1/models{query}", headers=headers or {}) as got:
        assert got.status == 200, await got.text()
        return [model["id"] for model in (await got.json())["data"]]


async def test_the_sizes_of_models_are_in_each_form() -> None:
    """Those of the configuration, of the upstream's list, and of the vendor's documentation."""
    up = Provider("up", CHAT, "")
    routes = [Route("mine", "up", "qwen3"), Route("opus", "up", "claude-opus-5"), Route("*", "up")]
    models = Models(context_windows=(("min*", 20_000),))
    async with served(model_server("qwen3", "plain", max_model_len=40_960, max_output_tokens=8192)) as (url, _):
        config = Config({"up": replace(up, base_url=f"{url}/v1")}, routes, models)
        async with gate(config) as entrance:
            async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client:
                listed: Any = {model.id: model async for model in client.models.list()}
                assert [*listed] == ["mine", "opus", "qwen3", "plain"]
                windows = {name: model.context_window for name, model in listed.items()}
                assert windows == {"mine": 20_000, "opus": 1_000_000, "qwen3": 40_960, "plain": 40_960}
                outputs = {name: model.max_output_tokens for name, model in listed.items()}
                assert outputs == {"mine": 8192, "opus": 128_000, "qwen3": 8192, "plain": 8192}
                one: Any = await client.models.retrieve("mine")
                assert (one.context_window, one.max_output_tokens) == (20_000, 8192)
            async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as other:
                paged = {model.id: (model.max_input_tokens, model.max_tokens) async for model in other.models.list()}
                assert paged == {name: (windows[name], outputs[name]) for name in listed}
            async with entrance.session.get(f"{entrance.url}/v1/models?client_version=0.171.0") as got:
                entries = (await got.json())["models"]
            assert {each["slug"]: each["context_window"] for each in entries} == windows


async def test_a_key_lists_its_own_models_to_codex() -> None:
    key, record = made("ada", models=("a*",))
    async with served(model_server("a", "b")) as (url, _):
        config = with_keys(config_for(f"{url}/v1", CHAT), record)
        async with gate(config) as entrance:
            where = f"{entrance.url}/v1/models?client_version=0.171.0"
            async with entrance.session.get(where, headers={"authorization": f"Bearer {key}"}) as got:
                assert [each["slug"] for each in (await got.json())["models"]] == ["a"]
            async with entrance.session.get(where) as got:
                assert got.status == 401


async def test_codex_keeps_its_own_catalogue_with_a_chatgpt_login() -> None:
    async with served(model_server("gpt-5.5")) as (url, _), gate(config_for(f"{url}/v1", CHAT)) as entrance:
        assert await names(entrance, {"chatgpt-account-id": "a"}, "?client_version=0.171.0") == ["gpt-5.5"]


@pytest.mark.turns
@pytest.mark.parametrize("dialect", list(Dialect))
async def test_the_sdks_list_what_a_base_url_serves(dialect: Dialect) -> None:
    async with served(strict_simulator()) as (upstream, _):
        base = upstream if dialect is MESSAGES else f"{upstream}/v1"
        async with gate(config_from_environment({}, base_url=base, dialect=dialect, api_key="k")) as entrance:
            async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as client:
                listed = [model async for model in client.models.list()]
                assert {model.id for model in listed} == set(SCRIPTS)
                assert all(model.created > 0 for model in listed)
                assert (await client.models.retrieve("sim-text")).created == listed[0].created
            async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as other:
                paged = [model async for model in other.models.list(limit=3)]
                assert [model.id for model in paged] == [model.id for model in listed]
                assert all(model.created_at.year > 1970 for model in paged)
                last = await other.models.list(before_id=paged[-1].id, limit=2)
                assert [model.id for model in last.data] == [model.id for model in paged[-3:-1]]
                assert (await other.models.retrieve("sim-text")).created_at == paged[0].created_at


async def test_the_environment_s_vendor_is_asked_once_for_both_of_its_surfaces() -> None:
    async with ScriptedServer(listing("gpt-5", "o4")) as server:
        # As OPENAI_API_KEY makes them, but for the host.
        config = config_from_environment({"OPENAI_API_KEY": "k"})
        here = {name: replace(each, base_url=f"{server.url}/v1") for name, each in config.providers.items()}
        assert len(here) == 2
        async with gate(replace(config, providers=here)) as entrance:
            assert await names(entrance) == await names(entrance, VERSION) == ["gpt-5", "o4"]
        (asked,) = server.requests
        assert asked.head.startswith(b"GET /v1/models HTTP/1.1\r\n")
        assert asked.headers["authorization"] == "Bearer k"
        assert "content-type" not in asked.headers


async def test_names_are_those_that_routes_lead_from() -> None:
    async with ScriptedServer(listing("qwen-8b", "llama-3")) as up, ScriptedServer(listing("big-1")) as other:
        config = Config(
            {"up": Provider("up", CHAT, f"{up.url}/v1"), "other": Provider("other", CHAT, f"{other.url}/v1")},
            [Route("claude-fast", "up", "qwen-8b"), Route("my-*", "up", "qwen-*"), Route("big-*", "other")],
        )
        async with gate(config) as entrance:
            assert await names(entrance) == ["claude-fast", "my-8b", "up/llama-3", "big-1"]
            async with entrance.session.get(f"{entrance.url}/v1/models/my-8b") as got:
                assert await got.json() == {"id": "my-8b", "object": "model", "created": 9, "owned_by": "up"}


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
async def test_an_upstream_that_is_away_costs_nothing(transport: str) -> None:
    async with ScriptedServer(listing("here")) as up, ScriptedServer([Stall()]) as silent:
        providers = {
            "up": Provider("up", CHAT, f"{up.url}/v1"),
            "silent": Provider("silent", CHAT, f"{silent.url}/v1"),
            "gone": Provider("gone", CHAT, "http://127.0.0.1:9/v1"),
        }
        config = Config(providers, [Route("*", "up")], server=Server(transport=transport))
        async with gate(config) as entrance:
            entrance.gateway._upstream_models._wait = 0.2
            await until_true(partial(names, entrance))
            # Without another look at those that returned nothing.
            assert await names(entrance) == ["here"]
        assert (len(up.requests), len(silent.requests)) == (1, 1)


async def test_discovery_can_be_switched_off() -> None:
    async with ScriptedServer(listing("a")) as server:
        config = Config({"up": Provider("up", CHAT, f"{server.url}/v1")}, [Route("*", "up")], Models(discover=False))
        async with gate(config) as entrance:
            assert await names(entrance) == []
        assert server.requests == []


async def test_clients_with_keys_of_their_own_see_their_own_lists() -> None:
    async with ScriptedServer(listing("a"), listing("b")) as server:
        provider = Provider("up", CHAT, f"{server.url}/v1", auth=Auth.PASSTHROUGH)
        async with gate(Config({"up": provider}, [Route("*", "up")])) as entrance:
            assert await names(entrance) == []
            assert server.requests == []
            for _ in range(2):
                assert await names(entrance, {"authorization": "Bearer one"}) == ["a"]
                assert await names(entrance, {"x-api-key": "two"}) == ["b"]
        assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer one", "Bearer two"]


async def test_a_gateway_that_is_its_own_upstream_has_an_empty_list() -> None:
    async with gate(Config()) as entrance:
        entrance.gateway.reconfigure(Config({"me": Provider("me", CHAT, f"{entrance.url}/v1")}, [Route("*", "me")]))
        assert await names(entrance) == []


async def test_a_reload_lists_the_new_upstream_s_models() -> None:
    async with ScriptedServer(listing("old")) as before, ScriptedServer(listing("new")) as after:
        config = config_from_environment({}, base_url=f"{before.url}/v1")
        async with gate(config) as entrance:
            assert await names(entrance) == ["old"]
            entrance.gateway.reconfigure(config_from_environment({}, base_url=f"{after.url}/v1"))
            assert await names(entrance) == ["new"]


@pytest.mark.parametrize("query", ["?limit=0", "?limit=x", "?after_id=nope", "?before_id=nope"])
async def test_a_wrong_page_is_a_400_in_the_dialect(query: str) -> None:
    async with (
        ScriptedServer(listing("a")) as server,
        gate(config_from_environment({}, base_url=f"{server.url}/v1")) as entrance,
    ):
        async with entrance.session.get(f"{entrance.url}/v1/models{query}", headers=VERSION) as got:
            assert got.status == 400
            assert read_error(MESSAGES, await got.read()).message.startswith(query[1:].partition("=")[0])
        assert await names(entrance, query=query) == ["a"], "OpenAI's list has no pages"


async def test_many_models_are_merged_beside_the_event_loop() -> None:
    many = [f"m{number}" for number in range(700)]
    async with (
        ScriptedServer(listing(*many)) as server,
        gate(config_from_environment({}, base_url=f"{server.url}/v1")) as entrance,
    ):
        assert await names(entrance) == await names(entrance) == many


# --- as a process ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_started_gateway_asks_before_any_client_does(workers: str) -> None:
    async with ScriptedServer(listing("qwen3")) as server:
        args = ("serve", "--base-url", f"{server.url}/v1", "--port", "0", "--workers", workers)
        async with command(*args) as process, aiohttp.ClientSession() as session:
            url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
            await until(lambda: len(server.requests) == int(workers))
            async with session.get(f"{url}/v1/models") as got:
                assert [model["id"] for model in (await got.json())["data"]] == ["qwen3"]
            process.process.terminate()
            assert await process.ends() == 0


async def test_an_upstream_that_never_answers_delays_neither_start_nor_end() -> None:
    async with ScriptedServer([Stall()]) as server:
        async with command("serve", "--base-url", f"{server.url}/v1", "--port", "0") as process:
            url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
            await until(lambda: len(server.requests) == 1)
            async with aiohttp.ClientSession() as session, asyncio.timeout(30), session.get(f"{url}/v1/models") as got:
                assert json.loads(await got.read())["data"] == []
            process.process.terminate()
            assert await process.ends(8) == 0
        assert "Traceback" not in process.stated


async def test_the_error_of_an_unknown_model_has_those_that_there_are() -> None:
    key, alice = made("alice", models=("qwen*", "absent"))
    async with served(model_server("qwen3:4b", "secret-model")) as (upstream, _):
        for config, sent, shown in (
            (config_for(upstream, CHAT), {}, "qwen3:4b, secret-model"),
            (with_keys(config_for(upstream, CHAT), alice), {"x-api-key": key}, "qwen3:4b"),
        ):
            async with gate(config) as entrance:
                for known in (False, True):
                    async with entrance.post(MESSAGES, model="absent", headers=sent) as response:
                        error = (await response.json())["error"]
                        assert (response.status, error["type"]) == (404, "not_found_error")
                        end = f"; up has the models {shown}" if known else ""
                        assert error["message"] == f"status 404{end}"
                    await names(entrance, sent)
                async with entrance.post(CHAT, model="absent", headers=sent) as response:
                    assert (await response.json())["error"]["message"] == "status 404", "the upstream's own bytes"
