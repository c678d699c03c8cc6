"""A day of mixed exchanges before a simulated upstream that keeps its own ledger, and how its rows differ from that."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from dragoman import Dialect
from dragoman_server import Config, Provider, Route
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price_parts import CallPrices, TierPrice
from dragoman_server.accounts.usage.price_table import Price
from dragoman_server.config.routing_options import RetryOptions
from dragoman_server.simulator.ledger import Entry
from dragoman_server.simulator.modifiers import ADVISER, FALLBACK
from support.gateways import Gate, config_for
from support.named_keys import with_keys
from support.samples import PATHS
from support.stateful import with_state
from support.waiting import PATIENCE
from support.websockets import speaking

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
LENGTH = 120
"""Fragments of a reply. A stream that stops stops behind two thirds of them."""
_LAST = b"token79 "
"""The last fragment of such a stream."""
_SHORT = (
    "sim-text",
    "sim-tools",
    "sim-parallel",
    "sim-thinking",
    "sim-usage",
    "sim-json",
    "sim-length-text",
    "sim-split",
)
_LONG = (f"sim-long-{LENGTH}", f"sim-long-{LENGTH}-thinking", f"sim-long-{LENGTH}-call")
_ENDS = ("cut", "reset", "missing", "failed", "stalled")
_REFUSALS = ("sim-error-400", "sim-error-429", "sim-error-503", "sim-error-529")
_WORDS = (
    *("the", "of", "a", "to", "is", "in", "that", "file", "test", "line", "value", "request", "configuration"),
    *("parameter", "function", "returns", "and", "exception", "directory", "repository", "permission", "for"),
    *("document", "software", "including", "without", "limitation", "connection", "each", "number", "message"),
)
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
TOOL = "get_weather"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@dataclass(frozen=True, slots=True)
class Call:
    """One exchange: its model's name is what the simulator is to do. `leaves` before the end of its stream."""

    client: Dialect
    upstream: Dialect
    model: str
    body: Mapping[str, Any]
    over: str = "http"
    """http, websocket, or background (Responses clients)."""
    leaves: bool = False

    @property
    def name(self) -> str:
        """The model's name for the gateway, which leads to its upstream."""
        return f"{self.upstream}/{self.model}"


def day(seed: int, count: int) -> Iterator[Call]:
    """Yield the calls of a day, in all directions in turn. The first ones of each end in every way."""
    rng = random.Random(seed)
    directions = [(client, upstream) for client in Dialect for upstream in Dialect]
    for number in range(count):
        client, upstream = directions[number % len(directions)]
        yield _call(rng, client, upstream, number)


def _call(rng: random.Random, client: Dialect, upstream: Dialect, number: int) -> Call:
    first = [*_ENDS, *_REFUSALS][number // len(Dialect) ** 2 :][:1]
    over, end = "http", rng.choice((*_ENDS, *[""] * 11))
    if first:
        end = first[0] if first[0] in _ENDS else ""
    if client is RESPONSES and rng.random() < 0.3:
        over = rng.choice(("websocket", "background"))
    stream = over == "websocket" or end == "stalled" or rng.random() < 0.6
    words = [word for word in ("priority", "flex", "searched", "written", "apart") if rng.random() < 0.12]
    words += [word for word in ("busy", "lost") if rng.random() < 0.05]
    # Without counts, what was generated must be long enough to be estimated within a tenth.
    uncounted = rng.random() < 0.15
    if not uncounted and not end:  # what was done besides the reply is known only if it is reported
        words += [word for word in ("compacted", "advised", "replaced") if rng.random() < 0.15]
    script = rng.choice(_LONG if uncounted or end else _SHORT)
    if not end and (first or rng.random() < 0.08):
        script = rng.choice(_REFUSALS)
    if end == "stalled" and over == "background":
        over = "http"  # its client cannot leave
    model = "+".join([script, *words, *["uncounted"] * uncounted, *[end] * bool(end), f"n{number}"])
    prompt = " ".join(rng.choices(_WORDS, k=rng.randrange(600, 1200)))
    body = _body(rng, client, prompt, stream=stream, tools="-call" in script or script in ("sim-tools", "sim-parallel"))
    return Call(client, upstream, model, body, over, end == "stalled")


def _body(rng: random.Random, client: Dialect, prompt: str, *, stream: bool, tools: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"stream": stream}
    if client is RESPONSES:
        body["input"] = prompt
        offered: dict[str, Any] = {"type": "function", "name": TOOL, "parameters": _SCHEMA}
    else:
        body["messages"] = [{"role": "user", "content": prompt}]
        offered = {"type": "function", "function": {"name": TOOL, "parameters": _SCHEMA}}
    if client is MESSAGES:
        body["max_tokens"] = 4000
        offered = {"name": TOOL, "input_schema": _SCHEMA}
    elif rng.random() < 0.2:
        body["service_tier"] = rng.choice(("flex", "priority", "auto"))
    if client is CHAT and stream and rng.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body["tools"] = [offered]
    return body


def configured(url: str, usage: UsageOptions, record: KeyRecord) -> Config:
    """A gateway that leads `DIALECT/MODEL` to a model of the simulator in that dialect, and books."""
    where = {each: url if each is Dialect.MESSAGES else f"{url}/v1" for each in Dialect}
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
                if call.leaves and _LAST in received:
                    return
    except aiohttp.ClientError:
        pass  # a reply that was cut


async def _read_turn(client: Any, *, leaves: bool) -> None:
    while leaves:
        event = await client.event()
        if _LAST.decode() in str(event.get("delta")):
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


COUNTS = {
    "input": "input",
    "cache_read": "cached",
    "cache_write": "cache_write",
    "cache_write_1h": "cache_write_1h",
    "output": "output",
    "reasoning": "reasoning",
}
"""Name of a count in a row → in the ledger."""


def differences(row: dict[str, Any], entry: Entry | None) -> list[str]:
    """Return how a row differs from the ledger: from the token, or where it is an estimate, by more than a tenth."""
    if entry is None:
        return [f"{name} {row[name]} of nothing" for name in COUNTS if row[name] is not None]
    found = []
    for name, own in COUNTS.items():
        booked, made = row[name], getattr(entry.generated, own)
        if name in row["estimated"]:
            if abs(booked - made) > made / 10:
                found.append(f"{name} is estimated as {booked}, not {made}")
        elif own in entry.reported:
            if (booked or 0) != made:
                found.append(f"{name} is {booked}, not {made}")
        elif booked is not None or name == "input" or (name == "output" and row["stream"]):
            found.append(f"{name} is {booked}, neither reported nor estimated ({made} generated)")
    for name, stated in (("searches", entry.searches), ("service_tier", entry.tier)):
        if row[name] != stated:
            found.append(f"{name} is {row[name]}, not {stated}")
    others = [(model, {name: getattr(counts, own) for name, own in COUNTS.items()}) for model, counts in entry.others]
    booked_others = [(part["model"], {name: part.get(name) or 0 for name in COUNTS}) for part in row["other_models"]]
    if "output" in entry.reported and sorted(others, key=str) != sorted(booked_others, key=str):
        found.append(f"other models are {booked_others}, not {others}")
    return found
