"""Every exchange is booked exactly once, whatever becomes of it, with the counts that the upstream reported."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession
from aiohttp.test_utils import TestServer

from dragoman import Dialect
from dragoman_server import Config, ExchangeRecord, Hooks, Provider, Route
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from support.commands import command
from support.counting_upstream import CountingUpstream
from support.fleet import fleet
from support.gateways import config_for, gate
from support.named_keys import made
from support.samples import PATHS, dump, reply
from support.sockets import Abort, ScriptedServer, Send, Step, answer, head
from support.waiting import until

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
KINDS = ("good", "good", "good", "refused", "broken", "cut", "slow", "busy", "lost")
RETRIED = ("busy", "lost")
PROMPT = "canary-of-the-prompt"


def request(client: Dialect, model: str, *, stream: bool, usage: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": stream}
    if client is MESSAGES:
        body["max_tokens"] = 100
    elif stream and usage:
        body["stream_options"] = {"include_usage": True}
    return body


async def exchange(session: ClientSession, url: str, client: Dialect, body: dict[str, Any], key: str) -> None:
    """Send a request and read its reply; leave a slow one after its first text."""
    headers = {"authorization": f"Bearer {key}"}
    try:
        async with session.post(url + PATHS[client], json=body, headers=headers) as response:
            received = b""
            async for piece in response.content.iter_any():
                received += piece
                if body["model"].startswith("slow") and b"there" in received:
                    return
    except ClientError:
        pass


@asynccontextmanager
async def booked(folder: Path, kind: str, **settings: Any) -> AsyncIterator[tuple[Any, CountingUpstream, str]]:
    """A gateway with a named key that books, before an upstream that counts. After it all rows are in the file."""
    upstream, (key, record) = CountingUpstream(), made()
    async with TestServer(upstream.app()) as server:
        url = str(server.make_url("")).rstrip("/")
        config: Config = replace(
            config_for(f"{url}/v1", CHAT),
            providers={"chat": Provider("chat", CHAT, f"{url}/v1"), "messages": Provider("messages", MESSAGES, url)},
            routes=[
                *(Route(f"{kind}-{name[0]}-*", name, attempts=3) for kind in RETRIED for name in ("chat", "messages")),
                *(Route("*-c-*", "chat"), Route("*-m-*", "messages")),
            ],
            retries=RetryOptions(backoff=0.001, backoff_max=0.01, budget=5.0, failures=0),
            keys={record.name: record},
            usage=UsageOptions(kind, str(folder / "usage")),
            prices={"*": Price(input=1.0, output=2.0)},
        )
        async with gate(config, **settings) as entrance:
            yield entrance, upstream, key


async def send_mixed(folder: Path, kind: str, count: int) -> tuple[list[dict[str, Any]], CountingUpstream]:
    """Send many exchanges of all kinds at once. Returns the rows."""
    rng, ended = random.Random(7), Counter[str]()
    models = []

    def on_end(record: ExchangeRecord[Any]) -> None:
        ended[record.model or ""] += 1

    async with booked(folder, kind, hooks=Hooks(on_end=on_end)) as (entrance, upstream, key):
        gauge = asyncio.Semaphore(20)

        async def one(number: int) -> None:
            async with gauge:
                model = f"{rng.choice(KINDS)}-{rng.choice('cm')}-{number}"
                models.append(model)
                client = rng.choice((CHAT, MESSAGES))
                body = request(client, model, stream=rng.random() < 0.7 or model[0] == "s", usage=rng.random() < 0.7)
                if model[:3] in ("cut", "slo"):
                    body["stream"] = True
                await exchange(entrance.session, entrance.url, client, body, key)

        await asyncio.gather(*(one(number) for number in range(count)))
        await until(lambda: ended.total() >= count)
    assert ended == Counter(models)
    assert upstream.seen == Counter({model: 1 + model.startswith(RETRIED) for model in models})
    return [*read_rows(UsageOptions(kind, str(folder / "usage")))], upstream


def check(rows: list[dict[str, Any]], upstream: CountingUpstream, count: int) -> None:
    assert len(rows) == len({row["id"] for row in rows}) == len({row["model"] for row in rows}) == count
    by_model = {row["model"]: row for row in rows}
    assert sum(row["attempts"] for row in rows) == len(upstream.requests)
    exact = {model: row for model, row in by_model.items() if row["ended"] == "completed"}
    # All that the upstream reported, and nothing else.
    assert {model: (row["input"], row["output"]) for model, row in exact.items()} == upstream.reported
    assert not any(row["estimated"] for row in exact.values())
    for index, name in enumerate(("input", "output")):
        assert sum(row[name] for row in exact.values()) == sum(counts[index] for counts in upstream.reported.values())
    # Each stream that was cut is booked too, with the exact input where the upstream had counted it before.
    partial = {model: row for model, row in by_model.items() if row["partial"]}
    assert partial.keys() == upstream.produced.keys()
    counted = {model: row["input"] for model, row in partial.items() if "input" not in row["estimated"]}
    assert counted == {model: counts[0] for model, counts in upstream.produced.items() if "-m-" in model}
    for model, row in by_model.items():
        kind = model.partition("-")[0]
        assert row["key"] == "alice"
        assert row["cost"] == pytest.approx(((row["input"] or 0) + 2 * (row["output"] or 0)) / 1e6) or not row["input"]
        if kind in ("refused", "broken"):
            assert (row["ended"], row["input"], row["output"], row["partial"]) == ("refused", None, None, False)
        elif kind in ("cut", "slow"):
            assert row["ended"] == {"cut": "failed", "slow": "abandoned"}[kind]
            assert row["partial"]
            assert row["input"] > 0
            assert "output" in row["estimated"]
        else:
            assert row["ended"] == "completed"
            assert row["attempts"] == 1 + (kind in RETRIED)


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_mixed_exchanges_are_booked_exactly_once(tmp_path: Path, kind: str) -> None:
    rows, upstream = await send_mixed(tmp_path, kind, 150)
    check(rows, upstream, 150)
    text = (tmp_path / "usage").read_bytes()
    assert PROMPT.encode() not in text
    assert b"sk-dragoman" not in text


@pytest.mark.whole
async def test_two_thousand_mixed_exchanges_are_booked_exactly_once(tmp_path: Path) -> None:
    rows, upstream = await send_mixed(tmp_path, "sqlite", 2_000)
    check(rows, upstream, 2_000)
    assert sums(rows, ("key",))[("alice",)].exchanges == 2_000


@pytest.mark.parametrize("books", [True, False], ids=["booked", "limited"])
async def test_counts_that_the_client_did_not_request_do_not_reach_it(tmp_path: Path, books: bool) -> None:
    async def stream(entrance: Any, key: str) -> bytes:
        headers = {"authorization": f"Bearer {key}"}
        body = request(CHAT, "good-c-1", stream=True, usage=False)
        async with entrance.session.post(entrance.url + PATHS[CHAT], json=body, headers=headers) as response:
            received: bytes = await response.read()
        return received

    async with booked(tmp_path, "jsonl") as (entrance, upstream, key):
        config: Config = entrance.gateway.config
        plain = replace(config, usage=UsageOptions())
        if not books:
            records = {name: replace(each, limits=KeyLimits(daily_tokens=10_000)) for name, each in config.keys.items()}
            config = replace(plain, keys=records)
        received = []
        for settings in (plain, config):
            entrance.gateway.reconfigure(settings)
            received.append(await stream(entrance, key))
    assert received[0] == received[1]
    assert b"usage" not in received[0]
    assert upstream.reported == {"good-c-1": (101, 11)}


@pytest.mark.parametrize("other", [False, True], ids=["again", "elsewhere"])
async def test_a_whole_reply_that_was_cut_counts_beside_the_attempt_that_follows(tmp_path: Path, other: bool) -> None:
    good = dump(reply(CHAT))
    head_of_good = head(200, [("content-type", "application/json"), ("content-length", str(len(good)))])
    cut: list[Step] = [Send(head_of_good + good[:90]), Abort()]
    options = UsageOptions("jsonl", str(tmp_path / "usage"))
    async with ScriptedServer(cut, answer(200, good)) as server:
        targets = (RouteTarget("up", "dear"), RouteTarget("second", "cheap")) if other else ()
        config = config_for(server.url, CHAT)
        config = replace(
            config,
            providers={**config.providers, "second": replace(config.providers["up"], name="second")},
            routes=[Route("*", "" if other else "up", targets=targets, attempts=2)],
            retries=RetryOptions(backoff=0.001, backoff_max=0.01, budget=5.0, failures=0),
            usage=options,
            prices={"*": Price(input=1.0), "dear": Price(input=100.0)},
        )
        async with gate(config) as entrance, entrance.post(MESSAGES, max_tokens=9) as response:
            assert response.status == 200
            usage = (await response.json())["usage"]
    (row,) = read_rows(options)
    known = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
    estimate = row["input"] - known
    assert estimate > 0
    assert (row["ended"], row["attempts"], row["estimated"]) == ("completed", 2, ["input"])
    assert row["output"] == usage["output_tokens"]
    if other:
        assert row["other_models"] == [{"model": "dear", "input": estimate, "cost": pytest.approx(estimate / 10_000)}]
        assert row["cost"] == pytest.approx((known + 100 * estimate) / 1e6)
    else:
        assert row["other_models"] == []
        assert row["cost"] == pytest.approx(row["input"] / 1e6)


async def test_rejected_requests_are_booked_without_usage(tmp_path: Path) -> None:
    async with booked(tmp_path, "jsonl") as (entrance, upstream, key):
        await exchange(entrance.session, entrance.url, MESSAGES, {"model": "good-c-1"}, key)
        await exchange(entrance.session, entrance.url, CHAT, {"model": "good-c-1"}, "wrong")
    rows = [*read_rows(UsageOptions("jsonl", str(tmp_path / "usage")))]
    assert [(row["ended"], row["key"], row["input"], row["cost"]) for row in rows] == [
        ("rejected", "alice", None, None),
        ("rejected", None, None, None),
    ]
    assert not upstream.requests


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_a_model_name_that_is_not_text_does_not_stop_booking(tmp_path: Path, kind: str) -> None:
    async with booked(tmp_path, kind) as (entrance, _, key):
        for model in ("good-c-1", "good-c-\ud800-2", "\udc00-4", "good-c-3"):
            body = request(CHAT, model, stream=False, usage=True)
            await exchange(entrance.session, entrance.url, CHAT, body, key)
    rows = [*read_rows(UsageOptions(kind, str(tmp_path / "usage")))]
    assert sorted(row["model"] for row in rows) == ["?-4", "good-c-1", "good-c-3", "good-c-?-2"]
    assert all(row["input"] for row in rows if row["model"].startswith("good-c-"))


async def test_a_reload_brings_a_price_to_a_budget_of_cost(tmp_path: Path) -> None:
    async with booked(tmp_path, "jsonl") as (entrance, upstream, key):
        config: Config = entrance.gateway.config
        (name, record), *_ = config.keys.items()
        limited = replace(record, limits=replace(record.limits, daily_cost=100.0))
        statuses = []
        for prices in ({}, {"good-*": Price(input=1.0, output=2.0)}, {"other": Price()}):
            entrance.gateway.reconfigure(replace(config, keys={name: limited}, prices=prices))
            headers = {"authorization": f"Bearer {key}"}
            body = request(CHAT, "good-c-1", stream=False, usage=True)
            async with entrance.session.post(entrance.url + PATHS[CHAT], json=body, headers=headers) as response:
                statuses.append(response.status)
    assert statuses == [403, 200, 403]
    assert upstream.requests == ["good-c-1"]


async def test_a_reload_brings_new_prices(tmp_path: Path) -> None:
    async with booked(tmp_path, "jsonl") as (entrance, _, key):
        for price in (1.0, 4.0):
            prices = {"good-*": Price(output=price)}
            entrance.gateway.reconfigure(replace(entrance.gateway.config, prices=prices))
            body = request(CHAT, "good-c-0", stream=False, usage=True)
            await exchange(entrance.session, entrance.url, CHAT, body, key)
    rows = [*read_rows(UsageOptions("jsonl", str(tmp_path / "usage")))]
    assert [row["cost"] for row in rows] == [pytest.approx(10e-6), pytest.approx(40e-6)]


async def test_a_provider_has_prices_of_its_own(tmp_path: Path) -> None:
    async with booked(tmp_path, "jsonl") as (entrance, _, key):
        config: Config = entrance.gateway.config
        dear = replace(config.providers["messages"], prices={"good-*": Price(output=50.0)})
        limited = {name: replace(each, limits=KeyLimits(daily_cost=1e-5)) for name, each in config.keys.items()}
        providers = {**config.providers, "messages": dear}
        entrance.gateway.reconfigure(replace(config, providers=providers, prices={"*": Price(0.001)}, keys=limited))
        statuses = []
        for model in ("good-c-0", "good-m-0", "good-c-1"):
            body = request(CHAT, model, stream=False, usage=True)
            headers = {"authorization": f"Bearer {key}"}
            async with entrance.session.post(entrance.url + PATHS[CHAT], json=body, headers=headers) as response:
                statuses.append(response.status)
    rows = [*read_rows(UsageOptions("jsonl", str(tmp_path / "usage")))]
    assert [row["cost"] for row in rows] == [pytest.approx(1e-7), pytest.approx(10 * 50e-6), None]
    assert statuses == [200, 200, 429]  # the second one cost more than the budget


FILE = """
[usage]
kind = "{kind}"
path = "{folder}/usage"
[providers.up]
dialect = "chat"
base_url = "{url}/v1"
[[routes]]
model = "*"
provider = "up"
"""


@pytest.mark.turns
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_process_that_ends_has_booked_what_ended_before(tmp_path: Path, number: signal.Signals) -> None:
    async with TestServer(CountingUpstream().app()) as server:
        path = tmp_path / "dragoman.toml"
        text = FILE.format(kind="jsonl", folder=tmp_path, url=str(server.make_url("")).rstrip("/"))
        await asyncio.to_thread(path.write_text, text)
        async with command("serve", "--port", "0", str(path)) as process, ClientSession() as session:
            url = (await process.writes(r"dragoman listens on (http://\S+)"))[1]
            bodies = [request(CHAT, f"good-c-{each}", stream=False, usage=True) for each in range(20)]
            await asyncio.gather(*(exchange(session, url, CHAT, body, "any") for body in bodies))
            if number is signal.SIGKILL:  # written within the time of a batch
                options = UsageOptions("jsonl", str(tmp_path / "usage"))
                await until(lambda: len([*read_rows(options)]) == 20)
            process.process.send_signal(number)
            await process.ends()
    rows = [*read_rows(UsageOptions("jsonl", str(tmp_path / "usage")))]
    assert sorted(row["model"] for row in rows) == sorted(body["model"] for body in bodies)


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
async def test_a_killed_worker_loses_no_exchange_and_leaves_whole_rows(tmp_path: Path, kind: str) -> None:
    upstream, options = CountingUpstream(), UsageOptions(kind, str(tmp_path / "usage"))

    def booked_models() -> set[str]:
        rows = [*read_rows(options)]  # raises for half a row
        assert len(rows) == len({row["id"] for row in rows}) == len({row["model"] for row in rows})
        assert all(row["output"] if row["ended"] != "lost" else row["estimated"] == ["input"] for row in rows)
        return {row["model"] for row in rows}

    async with TestServer(upstream.app()) as server:
        path = tmp_path / "dragoman.toml"
        text = FILE.format(kind=kind, folder=tmp_path, url=str(server.make_url("")).rstrip("/"))
        await asyncio.to_thread(path.write_text, text)
        async with fleet(str(path)) as gateway:

            async def send(model: str) -> None:
                body = request(CHAT, model, stream=True, usage=False)
                with suppress(ClientError):
                    async with gateway.session.post(gateway.url + PATHS[CHAT], json=body) as response:
                        if b"[DONE]" in await response.read():
                            answered.add(model)

            answered: set[str] = set()
            before = {f"good-c-{number}" for number in range(40)}
            await asyncio.gather(*map(send, sorted(before)))
            assert answered == before
            await until(lambda: booked_models() == before)  # without any help: within the time of a batch
            # Open streams, and rows that wait, when the worker is killed.
            slow_models = {f"slow-c-{number}" for number in range(100, 120)}
            slow = [asyncio.create_task(send(model)) for model in sorted(slow_models)]
            await until(lambda: len(upstream.produced) == len(slow))
            busy = [asyncio.create_task(send(f"good-c-{number}")) for number in range(200, 300)]
            await until(lambda: len(answered) > len(before) + 20)
            gateway.signal(signal.SIGKILL, 1)
            await gateway.reports_ready(1)
            await asyncio.gather(*busy)
            later = {f"good-c-{number}" for number in range(300, 320)}
            await asyncio.gather(*map(send, sorted(later)))
            assert later <= answered
            await until(lambda: later <= booked_models())
            found = booked_models()
            assert before | later <= found
            gateway.signal(signal.SIGTERM)
            for each in slow:
                each.cancel()
            await gateway.command.ends()
    # The other worker has booked its open streams; those of the killed one were lost, and booked by the next worker.
    rows = {row["model"]: row for row in read_rows(options)}
    lost = {model for model, row in rows.items() if row["ended"] == "lost"}
    assert booked_models() - lost <= set(upstream.requests) <= booked_models()
    assert all(row["ended"] == "completed" for row in rows.values() if row["model"] not in {*lost, *slow_models})
    assert all(rows[model]["ended"] in ("abandoned", "failed", "lost") for model in slow_models)
    assert lost & slow_models
    assert not [name for name in os.listdir(tmp_path) if "begun" in name]
