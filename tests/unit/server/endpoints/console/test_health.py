"""The numbers of the charts, and the providers' states."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from dragoman import Dialect, Usage, translate
from dragoman.gateway import DIRECTIONS
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.health import KEYS_MAX, health, keys_of, merged_keys, numbers, provider_states
from dragoman_server.observability.metric_families import (
    BREAKERS_OPEN,
    FIRST_EVENT,
    LOSSES,
    PROVIDER_DOWN,
    REQUESTS,
    UPSTREAM_ERRORS,
    Totals,
)
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.receipt import Receipt
from support import samples
from support.gateways import CHAT, MESSAGES, config_for, gate
from support.named_keys import made
from support.samples import text_stream
from support.scopes import end
from support.sockets import ScriptedServer, stream


def with_ui(url: str = "http://127.0.0.1:9/v1") -> Config:
    config = config_for(url, CHAT)
    return replace(config, server=replace(config.server, ui=True))


def test_requests_that_the_gateway_rejected_are_none_of_the_providers() -> None:
    totals = Totals()
    totals.add(REQUESTS, ("chat", "up", "*", "rejected", "4xx"), 9)
    (found,) = provider_states(Gateway(with_ui()), totals)
    assert (found["state"], found["requests"], found["errors"]) == ("unused", 0, 0)
    totals.add(REQUESTS, ("chat", "up", "*", "refused", "4xx"), 2)
    (found,) = provider_states(Gateway(with_ui()), totals)
    assert (found["state"], found["requests"]) == ("working", 2)


async def test_a_request_is_in_the_numbers() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server, gate(with_ui(server.url)) as up:
        await up.stream(MESSAGES, top_k=4)
        async with up.session.get(f"{up.url}/ui/api/health") as response:
            found = await response.json()
    assert found["requests"] == {"completed": 1}
    assert found["losses"] == {"top_k": 1}
    assert found["tokens"]["output"] == 9
    assert sum(found["first_event"][:-1]) == 1
    assert len(found["first_event"]) == len(found["buckets"]["seconds"]) + 2
    assert len(found["lag"]) == len(found["buckets"]["short"]) + 2
    assert found["providers"] == [
        {
            "name": "up",
            "dialect": "chat",
            "state": "working",
            "again": None,
            "cooling": 0,
            "requests": 1,
            "errors": 0,
            "queued": 0,
        }
    ]
    assert found["keys"] == [{"name": "", "requests": 1, "input": 5, "output": 9, "cost": None}]


def test_sums_are_by_one_label() -> None:
    totals = Totals()
    totals.add(REQUESTS, ("chat", "a", "r", "completed", "2xx"), 2)
    totals.add(REQUESTS, ("messages", "b", "r", "completed", "2xx"), 3)
    totals.add(LOSSES, ("top_k", "r"), 4)
    totals.add(UPSTREAM_ERRORS, ("a", "timeout"))
    totals.observe(FIRST_EVENT, ("chat", "a"), 0.01)
    totals.observe(FIRST_EVENT, ("chat", "b"), 0.02)
    found = numbers(totals)
    assert found["requests"] == {"completed": 5}
    assert found["losses"] == {"top_k": 4}
    assert found["errors"] == {"a timeout": 1}
    assert found["first_event"][0] == 2


def test_states_of_providers() -> None:
    names = ("paused", "down", "cooling", "working", "unused")
    config = replace(with_ui(), providers={name: Provider(name, CHAT, "http://127.0.0.1:9/v1") for name in names})
    config = replace(config, routes=())
    gateway, totals = Gateway(config), Totals()
    totals.put(BREAKERS_OPEN, ("paused",), 1)
    totals.put(PROVIDER_DOWN, ("down",), 1)
    totals.add(REQUESTS, ("chat", "working", "", "completed", "2xx"))
    routing = gateway.services.routing
    routing.of(config.providers["cooling"]).cooled["key", "m"] = routing.clock() + 60, True
    routing.of(config.providers["working"]).cooled["key", "m"] = routing.clock() - 1, True
    assert {each["name"]: each["state"] for each in provider_states(gateway, totals)} == {name: name for name in names}


def ended(key: str, usage: Usage | None) -> Receipt:
    receipt = Receipt("req_1", Dialect.MESSAGES, 1, key=made(key)[1] if key else None)
    body = samples.dump(samples.request(MESSAGES))
    receipt.translation = translate(DIRECTIONS[MESSAGES, CHAT], body, upstream_model="up-m")
    receipt.translation.context.usage = usage
    end(receipt, "completed", 200)
    return receipt


def test_tokens_and_cost_by_key() -> None:
    usage = Usage(input_total=1000, output_total=500)
    receipts = [ended("alice", usage), ended("alice", usage), ended("", None), Receipt("req_2", CHAT, 1)]
    gateway = Gateway(replace(with_ui(), prices={"up-m": Price(1.0, 2.0)}))
    rows = {row["name"]: row for row in keys_of(receipts, gateway.services.instruments.usage.cost)}
    assert rows["alice"]["requests"] == 2
    assert (rows["alice"]["input"], rows["alice"]["output"]) == (2000, 1000)
    assert Decimal(rows["alice"]["cost"]) == Decimal("0.004")
    assert rows[""] == {"name": "", "requests": 2, "input": 0, "output": 0, "cost": None}


def test_keys_of_workers_are_merged_and_bounded() -> None:
    def row(name: str, tokens: int, cost: str | None = None) -> Any:
        return {"name": name, "requests": 1, "input": tokens, "output": 0, "cost": cost}

    merged = merged_keys([row("a", 1, "0.1"), row("b", 5), row("a", 2, "0.2"), row("b", 1)])
    assert merged == [row("b", 6) | {"requests": 2}, row("a", 3, "0.3") | {"requests": 2}]
    assert len(merged_keys(row(str(number), 1) for number in range(KEYS_MAX + 5))) == KEYS_MAX


async def test_the_numbers_of_other_workers_are_included() -> None:
    class Siblings:
        async def totals(self) -> Totals:
            totals = Totals()
            totals.add(REQUESTS, ("chat", "up", "", "completed", "2xx"), 7)
            return totals

        async def console(self, question: Any) -> Any:
            assert question == {"kind": "keys"}
            return [{"keys": [{"name": "k", "requests": 1, "input": 2, "output": 3, "cost": None}]}, {}]

    siblings: Any = Siblings()
    found = await health(Gateway(with_ui(), siblings=siblings))
    assert found["requests"] == {"completed": 7}
    assert [row["name"] for row in found["keys"]] == ["k"]
