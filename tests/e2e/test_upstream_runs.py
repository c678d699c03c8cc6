"""Responses that an upstream runs in the background by itself are booked once, when a client reads their end.

Over gateway processes that share a store, before the simulated upstream.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dragoman_server.simulator import make_simulator
from support.commands import Command, command, run
from support.gateways import served
from support.named_keys import made
from support.postgres_server import postgres_server
from support.redis_server import redis_server
from support.waiting import until_true

CONFIG = """
[models]
unknown = "pass"
discover = false

[providers.up]
dialect = "responses"
base_url = "{url}/v1"

[prices."*"]
input = 1.0
output = 2.0

[keys.alice]
hash = "{hash}"
admin = true
daily_tokens = 1000000
daily_cost = 1000

[store]
timeout = 10
{store}

[usage]
{usage}
"""
KINDS = ("memory", "sqlite", "redis", "postgresql")
COUNTS = ("input", "cache_read", "output", "reasoning")


@dataclass
class Scene:
    """Gateways with one store, and what a client has got of them."""

    config: Path
    variables: dict[str, str]
    session: aiohttp.ClientSession
    urls: list[str] = field(default_factory=list)
    processes: list[Command] = field(default_factory=list)

    async def begin(self, *, at: int = 0, **fields: Any) -> Any:
        """Begin a response in the background. Return the reply: JSON, or the connection of a stream."""
        body = {"model": "sim-text", "input": "Hi", "background": True, **fields}
        return await self.session.post(f"{self.urls[at]}/v1/responses", json=body)

    async def started(self, **fields: Any) -> dict[str, Any]:
        async with await self.begin(**fields) as reply:
            assert reply.status == 200, await reply.text()
            found: dict[str, Any] = await reply.json()
            assert found["status"] in ("queued", "in_progress")
            return found

    async def get(self, response_id: str, at: int = -1, query: str = "") -> Any:
        async with self.session.get(f"{self.urls[at]}/v1/responses/{response_id}{query}") as reply:
            assert reply.status == 200, await reply.text()
            return await (reply.json() if not query else reply.text())

    async def receipt(self, request_id: str, at: int) -> dict[str, Any]:
        """The receipt of a request, as a gateway shows it."""
        async with self.session.get(f"{self.urls[at]}/v1/dragoman/receipts/{request_id}") as reply:
            found: dict[str, Any] = await reply.json()
            assert reply.status in (200, 404), found
            return found

    async def tokens(self) -> dict[str, int]:
        """The tokens that all gateways have counted, by kind."""
        return await self._counted(r'^dragoman_tokens_total\{.*kind="(\w+)"\} (\d+)$')

    async def requests(self) -> dict[str, int]:
        """The exchanges that all gateways have counted, by their end."""
        return await self._counted(r'^dragoman_requests_total\{.*ended="(\w+)".*\} (\d+)$')

    async def errors(self) -> dict[str, int]:
        """The errors of upstreams that all gateways have counted, by kind."""
        return await self._counted(r'^dragoman_upstream_errors_total\{.*kind="(\w+)"\} (\d+)$')

    async def _counted(self, line: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for url in self.urls:
            async with self.session.get(f"{url}/metrics") as reply:
                assert reply.status == 200
                for label, number in re.findall(line, await reply.text(), re.M):
                    found[label] = found.get(label, 0) + int(number)
        return {label: number for label, number in found.items() if number}

    async def ends(self, response_id: str, at: int = -1) -> Any:
        """Poll a response to its end."""
        found: Any = None

        async def ended() -> bool:
            nonlocal found
            found = await self.get(response_id, at)
            return found["status"] not in ("queued", "in_progress")

        await until_true(ended, 60)
        return found

    async def run(self, *args: str) -> str:
        status, out, _ = await run(*args, "-c", str(self.config), **self.variables)
        return out if status == 0 else ""

    async def sums(self) -> dict[str, dict[str, Any]]:
        """The usage by the end of the exchanges."""
        printed = await self.run("usage", "--by", "ended", "--json")
        return {row["ended"]: row for row in json.loads(printed)["data"]} if printed else {}

    async def booked(self, **exchanges: int) -> dict[str, dict[str, Any]]:
        """Wait until so many exchanges have ended in these ways. Return the sums."""
        found: dict[str, dict[str, Any]] = {}

        async def are() -> bool:
            nonlocal found
            found = await self.sums()
            return {end: row["exchanges"] for end, row in found.items()} == exchanges

        try:
            await until_true(are, 60)
        except TimeoutError:
            raise AssertionError(f"{found} is not {exchanges}") from None
        return found

    async def spent(self) -> float:
        (key,) = json.loads(await self.run("keys", "list", "--json"))["data"]
        return float(key["spent"]["daily_tokens"]["amount"])


def counted(reply: dict[str, Any]) -> tuple[int, int]:
    """Input and output as the upstream states them."""
    return reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]


@contextmanager
def settings(kind: str, usage: str, folder: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The stores of the limits and of the usage, and the variables of a gateway."""
    written = f'kind = "{usage}"\npath = "{folder}/usage"'
    if kind == "memory":
        yield "", written, {}
    elif kind == "sqlite":
        yield f'kind = "sqlite"\npath = "{folder}/store.db"', written, {}
    elif kind == "redis":
        with redis_server() as redis:
            yield f'kind = "redis"\nurl = "{redis.url}"', written, {}
    else:
        with redis_server() as redis, postgres_server() as postgres:
            store = f'kind = "postgresql"\nurl = "${{DATABASE}}"\nlimits_url = "{redis.url}"'
            yield store, 'kind = "postgresql"\nurl = "${DATABASE}"', {"DATABASE": postgres.url}


@asynccontextmanager
async def scene(kind: str, folder: Path, usage: str = "sqlite", pace: float = 0.02) -> AsyncIterator[Scene]:
    path, (key, record) = folder / "dragoman.toml", made()
    with settings(kind, usage, folder) as (store, rows, variables):
        async with AsyncExitStack() as stack:
            url, _ = await stack.enter_async_context(served(make_simulator(pace=pace)))
            path.write_text(CONFIG.format(url=url, hash=record.hash, store=store, usage=rows))
            headers = {"authorization": f"Bearer {key}"}
            session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
            found = Scene(path, variables, session)
            for _ in range(1 if kind == "memory" else 2):
                serve = command("serve", str(path), "--port", "0", **variables)
                found.processes.append(await stack.enter_async_context(serve))
            for process in found.processes:
                found.urls.append((await process.writes(r"dragoman listens on (http://\S+)"))[1])
            yield found


@pytest.mark.turns
@pytest.mark.parametrize("kind", KINDS)
async def test_each_way_to_an_end_books_it_once(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path, "jsonl" if kind in ("memory", "redis") else "sqlite") as it:
        begun = await it.started()
        running = (await it.booked(running=1))["running"]
        assert (running["estimated"], running["partial"], running["running"], running["output"]) == (1, 1, 1, 0)
        ended = await it.ends(begun["id"])
        # Both gateways read the end again and again, at the same time.
        await asyncio.gather(*(it.get(begun["id"], number % 2 - 1) for number in range(20)))
        given, made = counted(ended)
        row = (await it.booked(completed=1))["completed"]
        assert (row["input"], row["output"], row["estimated"], row["partial"]) == (given, made, 0, 0)
        assert row["cost"] == pytest.approx((given + 2 * made) / 1e6)

        # A stream whose client leaves: the rest is read elsewhere.
        reply = await it.begin(stream=True)
        first = json.loads((await reply.content.readuntil(b"\n\n")).partition(b"data: ")[2])
        reply.close()
        await it.booked(completed=1, running=1)
        events = await it.get(first["response"]["id"], query="?stream=true&starting_after=0")
        last = json.loads(events.strip().rpartition("data: ")[2])
        assert last["type"] == "response.completed"
        more = counted(last["response"])
        row = (await it.booked(completed=2))["completed"]
        assert (row["input"], row["output"], row["partial"]) == (given + more[0], made + more[1], 0)

        # A stream that is read to its end is booked as any other one, and reading it again books nothing.
        async with await it.begin(stream=True) as reply:
            whole = await reply.text()
        third = json.loads(whole.strip().rpartition("data: ")[2])["response"]
        await asyncio.gather(*(it.get(third["id"], number % 2 - 1) for number in range(6)))
        await it.get(third["id"], query="?stream=true&starting_after=0")
        row = (await it.booked(completed=3))["completed"]
        assert row["output"] == made + more[1] + counted(third)[1]
        used = sum(counted(ended)) + sum(more) + sum(counted(third))
        if kind != "memory":
            await until_true(lambda: is_spent(it, used))

        # One that is cancelled has ended, and its counts are not known.
        begun = await it.started(model="sim-long-120")
        url = f"{it.urls[-1]}/v1/responses/{begun['id']}/cancel"
        async with it.session.post(url) as cancelled:
            assert (await cancelled.json())["status"] == "cancelled"
        row = (await it.booked(completed=3, abandoned=1))["abandoned"]
        assert (row["estimated"], row["partial"], row["output"]) == (1, 1, 0)

        # One whose end is never read stays flagged.
        await it.started()
        await it.booked(completed=3, abandoned=1, running=1)


@pytest.mark.turns
@pytest.mark.parametrize("kind", KINDS)
async def test_receipts_and_counters_have_the_counts_of_the_end(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path, "jsonl" if kind in ("memory", "redis") else "sqlite") as it:
        async with await it.begin() as reply:
            request_id, begun = reply.headers["x-dragoman-request-id"], (await reply.json())["id"]
        assert (await it.receipt(request_id, 0))["ended"] == "running"
        assert (await it.tokens()).get("output", 0) == 0
        given, made = counted(await it.ends(begun))

        async def are_known() -> bool:
            shown = [await it.receipt(request_id, at) for at in range(len(it.urls))]
            usages = [each.get("usage") or {} for each in shown]
            names = "input_total", "output_total", "estimated"
            counts = [(each.get("ended"), *map(usage.get, names)) for each, usage in zip(shown, usages, strict=True)]
            return counts == [("completed", given, made, None)] * len(it.urls)

        await until_true(are_known, 30)
        for url in it.urls:
            async with it.session.get(f"{url}/v1/dragoman/receipts?limit=50") as reply:
                rows = (await reply.json())["data"]
            assert [row["ended"] for row in rows if row["request_id"] == request_id] == ["completed"]

        # One whose own stream is read to its end, and read again: counted once.
        async with await it.begin(stream=True) as reply:
            last = json.loads((await reply.text()).strip().rpartition("data: ")[2])["response"]
        await asyncio.gather(*(it.get(last["id"], number % 2 - 1) for number in range(6)))
        total = given + counted(last)[0], made + counted(last)[1]

        async def are_counted() -> bool:
            tokens = await it.tokens()
            assert tokens.get("input_estimated", 0) == 0
            return (tokens.get("input"), tokens.get("output")) == total

        await until_true(are_counted, 30)


@pytest.mark.turns
@pytest.mark.parametrize("kind", KINDS)
async def test_each_exchange_is_counted_once_with_its_end(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path, "jsonl" if kind in ("memory", "redis") else "sqlite") as it:
        ended = await it.started()  # not counted while it runs
        failed = await it.started(model="sim-long-120+failed")
        cancelled = await it.started(model="sim-long-120")
        left = await it.begin(stream=True)
        first = json.loads((await left.content.readuntil(b"\n\n")).partition(b"data: ")[2])["response"]
        left.close()
        async with await it.begin(stream=True) as reply:
            whole = json.loads((await reply.text()).strip().rpartition("data: ")[2])["response"]
        await it.booked(completed=1, running=4)
        assert await it.requests() == {"completed": 1}

        async with it.session.post(f"{it.urls[-1]}/v1/responses/{cancelled['id']}/cancel") as reply:
            assert reply.status == 200
        for response_id in (ended["id"], failed["id"], first["id"], whole["id"]):
            await it.ends(response_id)
            await asyncio.gather(*(it.get(response_id, number % 2 - 1) for number in range(6)))
        await it.booked(completed=3, failed=1, abandoned=1)
        assert await it.requests() == {"completed": 3, "failed": 1, "abandoned": 1}
        assert sum((await it.errors()).values()) == 1


async def is_spent(it: Scene, tokens: int) -> bool:
    return await it.spent() == tokens


@pytest.mark.turns
@pytest.mark.parametrize(("kind", "usage"), [("sqlite", "jsonl"), ("redis", "sqlite"), ("postgresql", "postgresql")])
async def test_an_end_is_booked_after_the_process_that_began_it_was_killed(
    kind: str, usage: str, tmp_path: Path
) -> None:
    async with scene(kind, tmp_path, usage) as it:
        begun = await it.started()
        await it.booked(running=1)
        it.processes[0].process.kill()
        given, made = counted(await it.ends(begun["id"]))
        row = (await it.booked(completed=1))["completed"]
        assert (row["input"], row["output"], row["lost"], row["running"]) == (given, made, 0, 0)
        await until_true(lambda: is_spent(it, given + made))


async def test_an_upstream_that_ends_at_once_is_booked_at_once(tmp_path: Path) -> None:
    """As many processes read the ends as begin them, and nothing is booked twice."""
    async with scene("sqlite", tmp_path, "jsonl", pace=0.0) as it:

        async def one(number: int) -> tuple[int, int]:
            async with await it.begin(at=number % 2) as reply:
                found = await reply.json()
            both = await asyncio.gather(it.ends(found["id"], 0), it.ends(found["id"], 1))
            return counted(both[0])

        found = await asyncio.gather(*(one(number) for number in range(30)))
        row = (await it.booked(completed=30))["completed"]
        assert row["input"] == sum(given for given, _ in found)
        assert row["output"] == sum(made for _, made in found)
        await until_true(lambda: is_spent(it, sum(map(sum, found))))
