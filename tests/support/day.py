"""Plays a day of mixed exchanges (`dragoman_proof.soak.calls`) against a gateway in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp

from dragoman import Dialect
from dragoman_proof.soak.calls import LAST, Call
from dragoman_server import Config, Provider, Route
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import CallPrices, Price, TierPrice
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.simulator.modifiers import ADVISER, FALLBACK
from support.gateways import Gate, config_for
from support.named_keys import with_keys
from support.samples import PATHS
from support.stateful import with_state
from support.waiting import PATIENCE
from support.websockets import speaking

RESPONSES = Dialect.RESPONSES
TRIES = 3
FACTORS = {"flex": 0.5, "priority": 2.0}
SEARCH = 0.01
PRICES = {
    "*": Price(
        input=3.0,
        output=15.0,
        cache_read=0.3,
        cache_write=3.75,
        cache_write_1h=6.0,
        tiers={name: TierPrice(factor=factor) for name, factor in FACTORS.items()},
        calls=CallPrices(web_search=SEARCH),
    ),
    ADVISER: Price(input=15.0, output=75.0),
    FALLBACK: Price(input=1.0, output=5.0),
}
"""Prices of all models, and of those that work besides the requested one."""


def configured(url: str, usage: UsageOptions, record: KeyRecord) -> Config:
    """A gateway that leads `DIALECT/MODEL` to a model of the simulator in that dialect, and books."""
    where = {each: f"{url}/{each.facts.version}" for each in Dialect}
    config = replace(
        config_for(url, Dialect.CHAT, validate=0.0),
        providers={each.value: Provider(each.value, each, where[each]) for each in Dialect},
        routes=[Route(f"{each}/*", each.value, "*", attempts=TRIES) for each in Dialect],
        retries=RetryOptions(backoff=0.001, backoff_max=0.01, budget=1000.0, failures=0),
        usage=usage,
        prices=PRICES,
    )
    return with_keys(with_state(config), record)


async def play(entrance: Gate, call: Call, headers: Mapping[str, str]) -> None:
    """Send a call, and read its reply to the end, or leave its stream behind the last fragment that comes."""
    body = {**call.body, "model": call.name}
    if call.over == "websocket":
        async with speaking(entrance.url, headers=headers) as client:
            await client.create(**body)
            await _read_turn(client, leaves=call.leaves)
        return
    if call.over == "background":
        await _in_background(entrance, body, headers)
        return
    try:
        async with entrance.session.post(entrance.url + PATHS[call.client], json=body, headers=headers) as response:
            received = b""
            async for piece in response.content.iter_any():
                received += piece
                if call.leaves and LAST in received:
                    return
    except aiohttp.ClientError:
        pass  # a reply that was cut


async def _read_turn(client: Any, *, leaves: bool) -> None:
    while leaves:
        event = await client.event()
        if LAST.decode() in str(event.get("delta")):
            return
    await client.rest()


async def _in_background(entrance: Gate, body: dict[str, Any], headers: Mapping[str, str]) -> None:
    """Begin a response in the background, and poll it until it has ended."""
    where = entrance.url + PATHS[RESPONSES]
    body = {**body, "stream": False, "background": True, "store": True}
    async with entrance.session.post(where, json=body, headers=headers) as response:
        state = await response.json()
    while state.get("status") in ("queued", "in_progress"):
        await asyncio.sleep(0.02)
        async with entrance.session.get(f"{where}/{state['id']}", headers=headers) as response:
            state = await response.json()


async def play_all(entrance: Gate, calls: list[Call], at_once: int, headers: Mapping[str, str]) -> None:
    """Play all calls, so many at once."""
    room = asyncio.Semaphore(at_once)

    async def one(call: Call) -> None:
        async with room, asyncio.timeout(PATIENCE):
            await play(entrance, call, headers)

    await asyncio.gather(*map(one, calls))
