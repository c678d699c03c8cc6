"""A client with a limit of requests uses the endpoints that are no chat: none of them is free of the limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.observability.metric_families import COUNTS
from dragoman_server.proxy.gateway import Gateway
from support.gateways import gate
from support.named_keys import keyed, made
from support.samples import dump, reply
from support.sockets import ScriptedServer, Stall, answer
from support.stateful import with_state
from support.websockets import speaking

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
FREE = {
    **dict.fromkeys(("/", "/health", "/ready"), "a balancer asks, without a key"),
    "/v1/dragoman/receipts": "they belong to requests that were counted",
    "/v1/dragoman/receipts/{request_id}": "it belongs to a request that was counted",
    "/v1/dragoman/status": "an admin asks what the hosts do",
    "/metrics": "a collector asks, with an admin's key",
    **dict.fromkeys(("/ui", "/ui/", "/ui/{name}"), "files of the console"),
    **dict.fromkeys(
        [
            f"/ui/api/{path}"
            for path in ("live", "about", "health", "history", "exchanges", "exchanges/{request_id}", "record")
        ],
        "an admin's page, which asks again and again for what is in memory",
    ),
    "/{path}": "no such endpoint",
    "PUT": "no such endpoint",
    "GET /v1/responses": "a handshake: each turn on the connection is counted",
    "DELETE /v1/conversations": "no such endpoint",
    "GET /v1/conversations": "no such endpoint",
    "/v1/conversations/{rest}": "no such endpoint",
    "/v1/responses/{rest}": "no such endpoint",
}
"""The routes that are not counted, with the reason."""
_VARIABLE = re.compile(r"\{[^{}]*\}")


def is_free(method: str, path: str) -> bool:
    path = re.sub("//+", "/", path)
    short = path if path in FREE else path.rstrip("/") or "/"
    return method in FREE or short in FREE or f"{method} {short}" in FREE


def endpoints(app: web.Application) -> Iterator[tuple[str, str]]:
    for route in app.router.routes():
        assert route.resource is not None
        for method in ("GET", "POST", "PUT", "DELETE") if route.method == "*" else (route.method,):
            if method not in ("OPTIONS", "HEAD"):
                yield method, route.resource.canonical


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_every_endpoint_that_costs_something_is_counted(tmp_path: Path) -> None:
    """The key has used its only request: each further one is a 429, wherever it goes."""
    key, record = made(requests_per_minute=1, admin=True)
    async with ScriptedServer(answer(200, dump(reply(CHAT)))) as upstream:
        config = keyed(upstream.url, CHAT, record, ui=True, resume=ResumeOptions(seconds=5))
        config = with_state(replace(config, capture=CaptureOptions(directory=str(tmp_path))))
        routes = list(endpoints(make_app(config, gateway=Gateway(config))))
        counted, free = set[str](), set[str]()
        async with gate(config, now=lambda: 1_795_000_000.0) as entrance:
            async with entrance.post(CHAT, headers=bearer(key)) as response:
                assert response.status == 200
            for method, path in routes:
                target = entrance.url + _VARIABLE.sub("x", path.replace("{rest}", "x/y/z"))
                if path.endswith("/live"):
                    continue  # a stream without an end
                # An invalid request is counted, too.
                sent = entrance.session.request(method, target, json={"model": "m"}, headers=bearer(key))
                async with sent as response:
                    status = response.status
                assert (status == 429) == (not is_free(method, path)), (method, path, status)
                (free if is_free(method, path) else counted).add(path)
        assert len(upstream.requests) == 1
        print(f"{len(counted)} paths are counted, {len(free)} are free")
        assert {f"/v1/{path}" for path in FORWARDED} < counted
        assert len(counted) > 60, "the table was not walked"


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES], ids=str)
async def test_counts_of_tokens_are_counted(client: Dialect) -> None:
    key, record = made(requests_per_minute=2)
    path = "/v1/messages/count_tokens" if client is MESSAGES else "/v1/responses/input_tokens"
    async with ScriptedServer(answer(200, dump({"input_tokens": 3}))) as upstream:
        async with gate(keyed(upstream.url, client, record), now=lambda: 1_795_000_000.0) as entrance:

            async def one(number: int) -> int:
                text = f"number {number}"
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                body = body if client is MESSAGES else {"model": "m", "input": text}
                async with entrance.session.post(entrance.url + path, json=body, headers=bearer(key)) as response:
                    assert response.status == 200 or int(response.headers["retry-after"]) > 0
                    return response.status

            statuses = await asyncio.gather(*(one(number) for number in range(40)))
            counts = entrance.gateway.metrics.totals.series(COUNTS)
        print(f"40 counts: {len(upstream.requests)} upstream requests")
        assert sorted(statuses) == [200, 200] + [429] * 38
        assert len(upstream.requests) == 2
        assert {labels[1]: value[0] for labels, value in counts.items()} == {"up": 2, "": 38}


async def test_a_count_of_tokens_is_an_open_request() -> None:
    key, record = made(concurrent_requests=2)
    async with ScriptedServer([Stall()]) as upstream, gate(keyed(upstream.url, MESSAGES, record)) as entrance:
        url = f"{entrance.url}/v1/messages/count_tokens"

        def body(number: int) -> dict[str, Any]:
            return {"model": "m", "messages": [{"role": "user", "content": f"number {number}"}]}

        async with asyncio.TaskGroup() as group:
            held = [
                group.create_task(entrance.session.post(url, json=body(number), headers=bearer(key)).__aenter__())
                for number in range(2)
            ]
            while len(upstream.requests) < 2:
                await upstream.arrived.wait()
                upstream.arrived.clear()
            async with entrance.session.post(url, json=body(2), headers=bearer(key)) as response:
                assert response.status == 429
            for task in held:
                task.cancel()
        assert len(upstream.requests) == 2


async def test_warm_ups_of_a_websocket_are_counted() -> None:
    key, record = made(requests_per_minute=2)
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as upstream,
        gate(keyed(upstream.url, CHAT, record), now=lambda: 1_795_000_000.0) as entrance,
        speaking(entrance.url, headers=bearer(key)) as client,
    ):
        ends = [(await client.turn(generate=False))[-1] for _ in range(5)]
        assert [end["type"] for end in ends] == ["response.completed"] * 2 + ["error"] * 3
        assert ends[-1]["status"] == 429
        assert not upstream.requests


async def test_a_read_does_not_wait_for_the_open_requests_of_its_key() -> None:
    """A client that polls a response which runs in the background has that one open."""
    key, record = made(requests_per_minute=9, concurrent_requests=1)
    async with (
        ScriptedServer([Stall()]) as upstream,
        gate(with_state(keyed(upstream.url, CHAT, record))) as entrance,
    ):
        held = asyncio.create_task(entrance.post(RESPONSES, headers=bearer(key)).__aenter__())
        while not upstream.requests:
            await upstream.arrived.wait()
            upstream.arrived.clear()
        url = f"{entrance.url}/v1/responses/resp_{'0' * 32}"
        async with entrance.session.get(url, headers=bearer(key)) as response:
            assert response.status == 404
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)


async def test_a_key_whose_budget_is_used_up_may_read_and_delete_what_it_has() -> None:
    key, record = made(requests_per_minute=9, monthly_tokens=10)
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as upstream,
        gate(with_state(keyed(upstream.url, CHAT, record))) as entrance,
    ):
        async with entrance.post(RESPONSES, headers=bearer(key)) as response:
            made_id = (await response.json())["id"]
        assert (await entrance.refusal(RESPONSES, headers=bearer(key)))[0] == 429
        for method in ("GET", "DELETE"):
            url = f"{entrance.url}/v1/responses/{made_id}"
            async with entrance.session.request(method, url, headers=bearer(key)) as response:
                assert response.status == 200
