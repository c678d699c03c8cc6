"""The ends of streams that are stored, on both loops, and detached from aiohttp or not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from dragoman.dialects import Dialect
from dragoman.threads import Node, StoreError
from support.gateways import until
from support.stateful import Stateful, stateful

BOTH_LOOPS = TAKEN = True


async def streamed(state: Stateful, model: str = "sim-text", **fields: Any) -> list[Any]:
    """The events of a stream that ends well as HTTP."""
    body = {"model": model, "input": "Hi", "stream": True, **fields}
    async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as response:
        assert response.status == 200
        whole = await response.read()
    return [json.loads(line[6:]) for line in whole.splitlines() if line.startswith(b"data: ")]


@pytest.mark.parametrize("upstream", list(Dialect))
async def test_the_end_waits_until_the_response_is_stored(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        put, allowed, asked = state.store.put, asyncio.Event(), asyncio.Event()

        async def slow(node: Node) -> None:
            asked.set()
            await allowed.wait()
            await put(node)

        state.store.put = slow
        running = asyncio.create_task(streamed(state))
        async with asyncio.timeout(30):
            await asked.wait()
            await asyncio.sleep(0.05)
            assert not running.done()
            allowed.set()
            events = await running
        assert events[-1]["type"] == "response.completed"
        assert {event["response"]["store"] for event in events if "response" in event} == {True}
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        response = events[-1]["response"]
        async with state.gate.session.get(f"{state.gate.url}/v1/responses/{response['id']}") as found:
            assert await found.json() == response


async def test_a_store_that_fails_costs_no_event_of_the_stream() -> None:
    async with stateful(Dialect.CHAT) as state:
        good = await streamed(state)

        async def full(_: Node) -> None:
            raise StoreError("the disk is full: make room")

        state.store.put = full
        events = await streamed(state)
        assert [event["type"] for event in events] == [event["type"] for event in good]
        assert events[-1]["response"]["store"] is False


async def test_a_client_that_leaves_during_the_wait_ends_the_request() -> None:
    async with stateful(Dialect.CHAT) as state:
        asked = asyncio.Event()

        async def slow(_: Node) -> None:
            asked.set()
            await asyncio.Event().wait()

        state.store.put = slow
        async with aiohttp.ClientSession() as session:
            body = {"model": "sim-text", "input": "Hi", "stream": True}
            response = await session.post(f"{state.gate.url}/v1/responses", json=body)
            async with asyncio.timeout(30):
                await asked.wait()
            response.close()
        await until(lambda: not len(state.gate.gateway.services.open_requests))


async def test_a_gateway_that_stops_waits_for_the_store() -> None:
    async with stateful(Dialect.CHAT) as state:
        put, asked = state.store.put, asyncio.Event()

        async def slow(node: Node) -> None:
            asked.set()
            await asyncio.sleep(0.1)
            await put(node)

        state.store.put = slow
        running = asyncio.create_task(streamed(state))
        async with asyncio.timeout(30):
            await asked.wait()
            await state.gate.gateway.stop(20.0)
            events = await running
        assert events[-1]["response"]["store"] is True
