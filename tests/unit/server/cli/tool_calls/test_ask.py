"""Asking of models through a gateway of this process; `e2e/test_check_tools.py` runs the command."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.wire import json_dumps
from dragoman_server.cli.tool_calls.ask import ask
from dragoman_server.cli.tool_calls.differences import differences
from dragoman_server.cli.tool_calls.question import models_to_ask
from dragoman_server.cli.tool_calls.report import Report
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.gateways import served


async def test_a_reply_that_does_not_end() -> None:
    release = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with served(app) as (url, _):
        config = Config(providers={"up": Provider("up", Dialect.CHAT, f"{url}/v1")})
        answers = await ask(config, models_to_ask(config, ["m"]), seconds=0.2)
        release.set()
    assert [[each.message for each in differences(answer)] for answer in answers] == [
        ["no whole reply within 0.2 s"]
    ] * 3


async def test_the_answers_are_in_the_order_of_the_models() -> None:
    providers = {name: Provider(name, Dialect.CHAT, "http://h/v1") for name in ("a", "b")}
    async with served(strict_simulator()) as (url, _):
        providers = {name: Provider(name, Dialect.CHAT, f"{url}/v1") for name in providers}
        config = Config(providers=providers)
        answers = await ask(config, models_to_ask(config, ["b/sim-tools", "a/sim-text", "b/sim-thinking"]))
    assert [(each.model.name, each.client) for each in answers] == [
        (model, client) for model in ("sim-tools", "sim-text", "sim-thinking") for client in CLIENT_DIALECTS
    ]


async def test_retries_other_routes_and_policies_are_not_used() -> None:
    simulator = strict_simulator()
    async with served(simulator) as (url, _):
        up = Provider("up", Dialect.CHAT, f"{url}/v1")
        routes = [Route("m", "up", "sim-error-500", attempts=5), Route("*", "up", "sim-tools")]
        config = Config(providers={"up": up}, routes=routes, models=Models(unknown="pass"))
        answers = await ask(config, models_to_ask(config, ["up/sim-error-500"]))
    assert [answer.upstream_status for answer in answers] == [500] * 3
    assert len(simulator[REQUESTS]) == 3


async def test_the_knobs_of_a_route_are_those_of_its_model() -> None:
    async with served(strict_simulator()) as (url, _):
        up = Provider("up", Dialect.MESSAGES, url)
        routes = [Route("m", "up", "sim-tools", knobs={"on_loss": "reject"})]
        config = Config(providers={"up": up}, routes=routes)
        answers = await ask(config, models_to_ask(config, []))
    assert {answer.client: answer.status for answer in answers}[Dialect.MESSAGES] == 200
    found = {answer.client: [each.code for each in differences(answer)] for answer in answers}
    assert found[Dialect.MESSAGES] == []


async def test_the_simulated_upstream_is_asked() -> None:
    config = simulated_config()
    provider = next(iter(config.providers))
    answers = await ask(config, models_to_ask(config, [f"{provider}/sim-tools"]))
    assert [differences(answer) for answer in answers] == [[]] * 3


async def test_a_key_that_a_host_repeats_is_masked() -> None:
    key = "plain-key-of-the-host"
    calls: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        calls.append(request.headers["authorization"])
        if len(calls) <= 3:
            return web.json_response({"error": {"message": f"no: {key}"}}, status=400)
        text = json.dumps(f"you sent {key}") if len(calls) <= 6 else json.dumps("you sent ")
        chunks = [f'{{"choices":[{{"index":0,"delta":{{"content":{text}}},"finish_reason":null}}]}}']
        if len(calls) > 6:  # in two parts
            chunks += [f'{{"choices":[{{"index":0,"delta":{{"content":"{part}"}}}}]}}' for part in (key[:9], key[9:])]
        chunks += [json.dumps({"error": {"message": f"bad {key}"}})]
        body = "".join(f"data: {chunk}\n\n" for chunk in chunks)
        return web.Response(text=body, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    async with served(app) as (url, _):
        config = Config(providers={"up": Provider("up", Dialect.CHAT, f"{url}/v1", Secret(key))})
        answers = await ask(config, models_to_ask(config, ["a", "b", "c"]))
    assert calls == [f"Bearer {key}"] * 9
    report = Report(answers, [])
    shown = json_dumps(report.json()).decode() + "\n".join(report.lines())
    assert "no: " in shown
    assert "bad " in shown
    assert key not in shown + repr(answers)
