"""`dragoman serve --base-url`: the models of its upstream."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from support.commands import command
from support.gateways import MESSAGES, served
from support.model_server import model_server
from support.samples import dump, request
from support.sockets import ScriptedServer

LISTENS = r"dragoman listens on (http://\S+)"


async def ask(url: str, model: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/messages", data=dump(request(MESSAGES, model=model))) as response,
    ):
        return response.status, await response.json()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_the_only_model_gets_requests_of_any_name(workers: str) -> None:
    async with (
        served(model_server("qwen3")) as (upstream, _),
        command("serve", "--port", "0", "--workers", workers, "--base-url", f"{upstream}/v1") as process,
    ):
        url = (await process.writes(LISTENS))[1]
        while process.stated.count("provider upstream has one model, qwen3: requests for any") < int(workers):
            await process.writes("has one model")
        for name in ("claude-sonnet-5-5", "qwen3", "gpt-5.5"):
            assert (await ask(url, name))[0] == 200


async def test_several_models_are_listed_and_names_are_passed_on() -> None:
    async with (
        served(model_server("qwen3:4b", "qwen3:32b")) as (upstream, _),
        command("serve", "--port", "0", "--base-url", f"{upstream}/v1") as process,
    ):
        url = (await process.writes(LISTENS))[1]
        await process.writes("the models qwen3:4b, qwen3:32b; --model NAME sends all requests to one of them")
        assert (await ask(url, "qwen3:32b"))[0] == 200
        assert (await ask(url, "claude-x"))[0] == 404


async def test_a_model_of_the_command_line_gets_all_requests() -> None:
    async with (
        served(model_server("qwen3:4b", "qwen3:32b")) as (upstream, _),
        command("serve", "--port", "0", "--base-url", f"{upstream}/v1", "--model", "qwen3:4b") as process,
    ):
        url = (await process.writes(LISTENS))[1]
        assert (await ask(url, "claude-x"))[0] == 200
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["qwen3:4b", "upstream/qwen3:32b"]


async def test_an_upstream_may_start_later_than_the_gateway() -> None:
    async with ScriptedServer([]) as server:
        port = int(server.url.rpartition(":")[2])
    async with command("serve", "--port", "0", "--base-url", f"http://127.0.0.1:{port}/v1") as process:
        url = (await process.writes(LISTENS))[1]
        await process.writes(rf"nothing listens on 127\.0\.0\.1:{port}: is the model server running\?")
        assert (await ask(url, "claude-x"))[0] == 502
        async with served(model_server("late"), port=port):
            await process.writes("has one model, late")
            assert (await ask(url, "claude-x"))[0] == 200
