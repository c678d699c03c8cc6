"""A client that invents keys keeps no other client from its list of models.

With `auth = "passthrough"` each key has a list of its own. 64 lists are kept and 8 are fetched at a time, so that one
client with invented keys pushed out those of others, and let none be fetched.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace

from aiohttp import web

from dragoman.aio import UpstreamRequest
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.routing.upstream_models import FETCHES_MAX, KEPT, UpstreamModels
from support.gateways import CHAT, config_for, gate, served
from support.waiting import turns, until

UP = Provider("up", Dialect.CHAT, "http://up/v1")
GOOD: Mapping[str, str] = {"authorization": "Bearer good"}


class Upstream:
    """Accepts one key. Requests with others are held until `go` is set."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.held = 0
        self.go = asyncio.Event()

    async def fetch(self, call: UpstreamRequest) -> tuple[int, bytes]:
        key = call.headers["authorization"]
        self.calls.append(key)
        if key == GOOD["authorization"]:
            return 200, json.dumps({"data": [{"id": "a"}]}).encode()
        self.held += 1
        try:
            await self.go.wait()
        finally:
            self.held -= 1
        return 401, b"{}"


def invented(number: int) -> list[tuple[Provider, Mapping[str, str]]]:
    return [(UP, {"authorization": f"Bearer {number}"})]


async def listed(models: UpstreamModels) -> list[str]:
    return [each.name for each in (await models.lists([(UP, GOOD)], "another"))[0]]


async def test_another_client_gets_its_list_while_invented_keys_are_tried() -> None:
    up = Upstream()
    models = UpstreamModels(up.fetch, wait=0.0)
    for number in range(3 * KEPT):
        await models.lists(invented(number), "attacker")
    await turns(10)
    print(f"{3 * KEPT} invented keys: {up.held} of {FETCHES_MAX} fetches, {len(models._refreshes)} wait or run")
    models._wait = 5.0
    assert up.held < FETCHES_MAX
    assert len(models._refreshes) < KEPT
    assert await listed(models) == ["a"]
    await models.close()


async def test_a_list_in_use_is_not_pushed_out_by_invented_keys() -> None:
    up = Upstream()
    up.go.set()
    models = UpstreamModels(up.fetch)
    assert await listed(models) == ["a"]
    for number in range(3 * KEPT):
        await models.lists(invented(number), "attacker")
        assert len(models._lists) <= KEPT
    print(f"{len(up.calls)} fetches, {len(models._lists)} lists")
    assert await listed(models) == ["a"]
    assert up.calls.count(GOOD["authorization"]) == 1


async def test_a_list_that_was_pushed_out_while_it_was_fetched_is_returned() -> None:
    up = Upstream()
    models = UpstreamModels(up.fetch)
    fetched = asyncio.create_task(listed(models))
    await asyncio.sleep(0)
    models._lists.clear()
    assert await fetched == ["a"]


async def test_the_address_of_a_client_decides_at_the_endpoint() -> None:
    go = asyncio.Event()
    waiting = 0

    async def models(request: web.Request) -> web.Response:
        nonlocal waiting
        waiting += 1
        await go.wait()
        return web.json_response({"data": [{"id": "a"}]})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    async with served(app) as (url, _):
        config = config_for(f"{url}/v1", CHAT)
        provider = replace(config.providers["up"], auth=Auth.PASSTHROUGH)
        async with gate(replace(config, providers={"up": provider})) as up:
            up.gateway._upstream_models._wait = 0.05

            async def get(key: str) -> None:
                headers = {"authorization": f"Bearer {key}"}
                async with up.session.get(f"{up.url}/v1/models", headers=headers) as response:
                    assert response.status == 200

            await asyncio.gather(*[get(f"k{number}") for number in range(3 * FETCHES_MAX)])
            print(f"{3 * FETCHES_MAX} invented keys: {waiting} requests to the upstream")
            await until(lambda: waiting)
            assert waiting < FETCHES_MAX
            go.set()
