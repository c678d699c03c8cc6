"""The cost follows the upstream's statements wherever an exchange is booked: tier, speed, calls, caches.

Each report of an upstream, in its own words, is sent in every form in which a client can use the gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dragoman import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import CallPrices, Price, StepPrice, TierPrice
from support.client_forms import MAIN, TURN, Form, posted
from support.gateways import Gate, gate
from support.named_keys import keyed, made, spent

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
Json = dict[str, Any]
PRICE = Price(
    input=3.0,
    output=15.0,
    cache_read=0.3,
    cache_write=3.75,
    cache_write_1h=6.0,
    steps=(StepPrice(1_000, input=6.0, output=22.5),),
    tiers={"flex": TierPrice(0.5), "priority": TierPrice(2.0), "fast": TierPrice(6.0)},
    calls=CallPrices(web_search=0.01, web_fetch=0.002, file_search=0.0025),
)


@dataclass(frozen=True)
class Report:
    """The statements of an upstream, and what a row has of them. `cost` is in millionths."""

    upstream: Dialect
    usage: Json
    cost: str
    tier: str | None = None
    speed: str | None = None
    searches: int | None = None
    more: Json = field(default_factory=dict)
    """Further fields of the reply."""
    calls: tuple[Json, ...] = ()
    """Items of the output before its text."""


def chat(tokens: int, **more: Any) -> Json:
    return {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10, **more}


def messages(tokens: int, **more: Any) -> Json:
    return {"input_tokens": tokens, "output_tokens": 10, **more}


def responses(tokens: int, **more: Any) -> Json:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10, **details, **more}


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
FILES = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": None}
CACHE = {"cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30}}
COMPACTION = {"type": "compaction", "input_tokens": 900, "output_tokens": 20, "cache_read_input_tokens": 0}
ITERATIONS = [COMPACTION, {"type": "message", "input_tokens": 200, "output_tokens": 10}]
REPORTS = {
    "chat": Report(CHAT, chat(100), "450"),
    "chat flex": Report(CHAT, chat(100), "225", "flex", more={"service_tier": "flex"}),
    "chat default": Report(CHAT, chat(100), "450", "default", more={"service_tier": "on_demand"}),
    "chat long": Report(CHAT, chat(2_000), "12225"),
    "chat searches": Report(
        CHAT, chat(100, num_search_queries=2), "20900", "priority", searches=2, more={"service_tier": "priority"}
    ),
    "chat cache": Report(CHAT, chat(100, prompt_tokens_details={"cached_tokens": 20, "cache_write_tokens": 40}), "426"),
    "chat cache by time": Report(
        CHAT,
        chat(
            100,
            prompt_tokens_details={
                "cached_tokens": 20,
                "cache_creation_tokens": 40,
                "cache_creation_token_details": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30},
            },
        ),
        "493.5",
    ),
    "messages": Report(MESSAGES, messages(100), "450"),
    "messages priority": Report(MESSAGES, messages(100, service_tier="priority"), "900", "priority"),
    "messages fast": Report(MESSAGES, messages(100, service_tier="standard", speed="fast"), "2700", "default", "fast"),
    "messages searches": Report(
        MESSAGES,
        messages(100, server_tool_use={"web_search_requests": 3, "web_fetch_requests": 4}),
        "38450",
        searches=3,
    ),
    "messages cache": Report(
        MESSAGES, messages(40, cache_read_input_tokens=20, cache_creation_input_tokens=40, **CACHE), "493.5"
    ),
    "messages compaction": Report(MESSAGES, messages(200, iterations=ITERATIONS), "3750"),
    "responses flex": Report(RESPONSES, responses(100), "225", "flex", more={"service_tier": "flex"}),
    "responses items": Report(RESPONSES, responses(100), "12950", searches=1, calls=(SEARCH, FILES)),
    "responses counted": Report(
        RESPONSES,
        responses(2_000),
        "44450",
        "priority",
        searches=2,
        more={"service_tier": "priority", "tool_usage": {"web_search": {"num_requests": 2}}},
        calls=(SEARCH,),
    ),
}


def whole(report: Report) -> Json:
    """The reply in one body."""
    if report.upstream is CHAT:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        kind = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up"}
        return {**kind, "choices": [choice], "usage": report.usage, **report.more}
    if report.upstream is MESSAGES:
        kind = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up"}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        return {**kind, "content": [{"type": "text", "text": "Hi"}], **end, "usage": report.usage, **report.more}
    text = {"type": "output_text", "text": "Hi", "annotations": []}
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]}
    kind = {"id": "resp_1", "object": "response", "created_at": 1, "model": "up", "status": "completed"}
    rest: Json = {
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return {**kind, **rest, "output": [*report.calls, item], "usage": report.usage, **report.more}


def events(report: Report) -> list[Json]:
    """The payloads of the reply's stream."""
    reply = whole(report)
    if report.upstream is CHAT:
        kind = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up", **report.more}
        text = {"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        return [{**kind, "choices": [text]}, {**kind, "choices": [end]}, {**kind, "choices": [], "usage": report.usage}]
    if report.upstream is MESSAGES:
        late = {name: value for name, value in report.usage.items() if name in ("server_tool_use", "iterations")}
        early = {name: value for name, value in report.usage.items() if name not in late}
        begun = {**reply, "content": [], "stop_reason": None, "usage": {**early, "output_tokens": 1}}
        return [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 10, **late},
            },
            {"type": "message_stop"},
        ]
    found: list[Json] = [
        {"type": "response.created", "response": {**reply, "status": "in_progress", "output": [], "usage": None}}
    ]
    for index, item in enumerate(reply["output"]):
        found.append({"type": "response.output_item.added", "output_index": index, "item": item})
        found.append({"type": "response.output_item.done", "output_index": index, "item": item})
    found.append({"type": "response.completed", "response": reply})
    return [{**event, "sequence_number": number} for number, event in enumerate(found)]


def frame(event: Json) -> str:
    line = f"event: {event['type']}\n" if "type" in event else ""
    return f"{line}data: {json.dumps(event)}\n\n"


@asynccontextmanager
async def upstream(report: Report) -> AsyncIterator[str]:
    """A server that gives this reply, as a stream where the request wants one."""

    async def reply(request: web.Request) -> web.Response:
        if not (await request.json()).get("stream"):
            return web.json_response(whole(report))
        lines = [frame(event) for event in events(report)]
        end = "data: [DONE]\n\n" * (report.upstream is CHAT)
        return web.Response(text="".join(lines) + end, content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/{path:.*}", reply)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1" if report.upstream is not MESSAGES else "")).rstrip("/")


async def in_background(entrance: Gate, headers: Mapping[str, str]) -> tuple[int, str]:
    """A response in the background, up to its end."""
    answered, body = await posted("/v1/responses", input="Hi", background=True)(entrance, headers)
    path = f"{entrance.url}/v1/responses/{json.loads(body.partition('} ')[2])['id']}"
    async with asyncio.timeout(30):
        while any(f'"status":"{word}"' in body.replace(": ", ":") for word in ("queued", "in_progress")):
            async with entrance.session.get(path, headers=dict(headers)) as response:
                answered, body = response.status, await response.text()
    return answered, body


FORMS: dict[str, Form] = {**MAIN, "background": in_background}


async def booked(report: Report, forms: Mapping[str, Form], folder: Path) -> tuple[list[Json], int]:
    """Send a request in each form. Returns the rows that were booked, and the cost that the key's budget counts."""
    key, record = made(daily_cost=1000.0)
    file = folder / "usage.jsonl"
    headers = {"authorization": f"Bearer {key}"}
    async with upstream(report) as url:
        config = replace(
            keyed(url, report.upstream, record), usage=UsageOptions("jsonl", str(file)), prices={"*": PRICE}
        )
        async with gate(config) as entrance:
            for name, form in forms.items():
                status, text = await form(entrance, headers)
                assert status == 200, (name, text)
            cost = await counted(entrance, record)
    return [json.loads(line) for line in file.read_text().splitlines()], cost


async def counted(entrance: Gate, record: KeyRecord) -> int:
    return (await spent(entrance, record))["daily_cost"]


@pytest.mark.few
@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
async def test_every_form_books_what_the_upstream_states(report: Report, tmp_path: Path) -> None:
    rows, cost = await booked(report, FORMS, tmp_path)
    expected = Decimal(report.cost) / 10**6
    assert len(rows) == len(FORMS)
    found = [(row["ended"], row["service_tier"], row["speed"], row["searches"], row["cost"]) for row in rows]
    assert found == [("completed", report.tier, report.speed, report.searches, float(expected))] * len(FORMS)
    assert not any(row["estimated"] for row in rows)
    assert cost == len(FORMS) * expected * UNITS


@pytest.mark.parametrize("name", ["chat flex", "chat searches"])
async def test_a_forwarded_endpoint_books_what_the_upstream_states(name: str, tmp_path: Path) -> None:
    report = REPORTS[name]
    forms = {kind: posted("/v1/completions", prompt="Hi", stream=kind == "stream") for kind in ("whole", "stream")}
    rows, cost = await booked(report, forms, tmp_path)
    expected = Decimal(report.cost) / 10**6
    found = [(row["client"], row["service_tier"], row["searches"], row["cost"]) for row in rows]
    assert found == [("completions", report.tier, report.searches, float(expected))] * 2
    assert cost == 2 * expected * UNITS


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES])
async def test_the_tier_that_served_counts_and_not_the_requested_one(dialect: Dialect, tmp_path: Path) -> None:
    report = replace(REPORTS["chat default"], more={"service_tier": "default"})
    fields: Json = {"messages": TURN} if dialect is CHAT else {"input": "Hi"}
    forms = {"one": posted("/v1/" + dialect.path, service_tier="priority", **fields)}
    rows, _ = await booked(report, forms, tmp_path)
    assert [(row["service_tier"], row["cost"]) for row in rows] == [("default", 0.00045)]


async def test_without_prices_nothing_costs_anything_and_the_row_has_the_report(tmp_path: Path) -> None:
    report = REPORTS["messages fast"]
    file = tmp_path / "usage.jsonl"
    async with upstream(report) as url:
        config = replace(keyed(url, MESSAGES), usage=UsageOptions("jsonl", str(file)))
        async with gate(config) as entrance:
            await MAIN["messages"](entrance, {})
    (row,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (row["service_tier"], row["speed"], row["cost"]) == ("default", "fast", None)
