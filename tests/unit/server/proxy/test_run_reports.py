"""The hook `on_end` gets a response that its upstream runs in the background twice: while it runs, and with its counts.

An application has the gateway in its process, before the simulated upstream.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from dragoman import Dialect
from dragoman_server import ExchangeRecord, Hooks, Principal
from dragoman_server.accounts.usage.price import Price
from dragoman_server.simulator import make_simulator
from support.gateways import Gate, config_for, gate, served
from support.waiting import until, until_true

PATH = "/v1/responses"


async def authorize(request: web.Request) -> Principal[str]:
    return Principal("alice", "row of alice")


async def ended(entrance: Gate, response_id: str) -> dict[str, Any]:
    """Poll a response to its end."""
    found: dict[str, Any] = {}

    async def has_ended() -> bool:
        async with entrance.session.get(f"{entrance.url}{PATH}/{response_id}") as reply:
            found.update(await reply.json())
        return found["status"] not in ("queued", "in_progress")

    await until_true(has_ended, 30)
    return found


@pytest.mark.parametrize("is_async", [False, True], ids=["call", "coroutine"])
async def test_the_hook_gets_the_end_that_a_client_reads(is_async: bool) -> None:
    records: list[ExchangeRecord[str]] = []

    def on_end(record: ExchangeRecord[str]) -> None:
        records.append(record)

    async def on_end_later(record: ExchangeRecord[str]) -> None:
        records.append(record)

    hooks = Hooks(authorize=authorize, on_end=on_end_later if is_async else on_end)
    async with served(make_simulator(pace=0.02)) as (url, _):
        config = replace(config_for(f"{url}/v1", Dialect.RESPONSES), prices={"*": Price(input=1.0, output=2.0)})
        async with gate(config, hooks=hooks) as entrance:
            body = {"model": "sim-text", "input": "Hi", "background": True, "logit_bias": {}}
            async with entrance.session.post(entrance.url + PATH, json=body) as reply:
                begun = await reply.json()
            await until(lambda: len(records) == 1)
            found = (await asyncio.gather(*(ended(entrance, begun["id"]) for _ in range(8))))[0]
            await until(lambda: len(records) == 2)
            # The end of a stream that its own client reads is in its only record.
            async with entrance.session.post(entrance.url + PATH, json={**body, "stream": True}) as reply:
                last = json.loads((await reply.text()).strip().rpartition("data: ")[2])["response"]
            await ended(entrance, last["id"])
            await until(lambda: len(records) == 3)
    running, final, streamed = records
    assert (running.ended, running.usage, running.cost) == ("running", None, None)
    assert (final.ended, final.partial, final.estimated) == ("completed", False, ())
    assert final.usage is not None
    assert streamed.usage is not None
    given, made = found["usage"]["input_tokens"], found["usage"]["output_tokens"]
    assert (final.usage.input_total, final.usage.output_total) == (given, made)
    assert float(final.cost or 0) == pytest.approx((given + 2 * made) / 1e6)
    same = (
        "request_id",
        "client",
        "upstream",
        "model",
        "provider",
        "route",
        "principal",
        "created",
        "stream",
        "losses",
    )
    assert [getattr(final, name) for name in same] == [getattr(running, name) for name in same]
    assert final.duration >= running.duration
    assert (streamed.ended, streamed.partial) == ("completed", False)
    assert streamed.usage.output_total == last["usage"]["output_tokens"]
