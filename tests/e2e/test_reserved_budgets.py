"""Budgets while many requests are open: what they may still use is reserved, so nothing is spent above the budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman.dialects import Dialect
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.proxy.hooks import Hooks
from support.gateways import Gate, gate, until
from support.named_keys import keyed, made, spent
from support.redis_server import redis_server
from support.samples import PATHS, dump, read_error, reply, request, text_stream
from support.sockets import Abort, ScriptedServer, Send, Step, Wait, answer, sse_head, stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
LIMITS = {CHAT: "max_completion_tokens", MESSAGES: "max_tokens", RESPONSES: "max_output_tokens"}
LONGEST, USED = 20, 9
"""Output tokens that a request may use, and those of the sample replies."""
COST = Decimal("0.005")
"""A token of output; input costs nothing. So a request reserves 0.1, and costs 0.045."""
MANY = 200
STORES = ("memory", "sqlite", "redis")
DIRECTIONS = (
    (CHAT, CHAT, False),
    (CHAT, MESSAGES, True),
    (MESSAGES, CHAT, True),
    (MESSAGES, RESPONSES, False),
    (RESPONSES, MESSAGES, False),
    (RESPONSES, RESPONSES, True),
)


class Prices:
    """Output costs something, and input does not."""

    def cost(
        self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
    ) -> Decimal | None:
        return COST * (usage.output_total or 0) * (2 if model == "dear" else 1)


@dataclass
class Team:
    """A gateway, its upstream, and one key."""

    entrance: Gate
    server: ScriptedServer
    open: asyncio.Event
    key: str
    record: KeyRecord

    async def ask(self, client: Dialect, **fields: Any) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of a request."""
        body = request(client, **{LIMITS[client]: LONGEST, **fields})
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url = self.entrance.url + PATHS[client]
        async with self.entrance.session.post(url, data=dump(body), headers=headers) as response:
            return response.status, await response.text(), {k.lower(): v for k, v in response.headers.items()}

    async def wave(self, client: Dialect, count: int, **fields: Any) -> list[tuple[int, str, dict[str, str]]]:
        """The responses to so many requests that are all open before the first of them ends."""
        before = len(self.server.requests)
        self.open.clear()
        tasks = [asyncio.create_task(self.ask(client, **fields)) for _ in range(count)]
        await until(lambda: sum(task.done() for task in tasks) + len(self.server.requests) - before == count)
        self.open.set()
        return list(await asyncio.gather(*tasks))

    async def spent(self) -> dict[str, int]:
        """The sums in the store, once all settlements have arrived."""
        return await spent(self.entrance, self.record)


@asynccontextmanager
async def store_options(kind: str, folder: Path) -> AsyncIterator[StoreOptions]:
    if kind == "redis":
        with redis_server() as redis:
            yield StoreOptions(kind, url=redis.url, timeout=5.0, keys=False)
    else:
        yield StoreOptions(kind, path=str(folder / "limits.db"), timeout=5.0, keys=False)


@asynccontextmanager
async def team(
    kind: str, folder: Path, upstream: Dialect, *scripts: list[Step], streamed: bool = False, **options: Any
) -> AsyncIterator[Team]:
    limits = {name: options.pop(name) for name in [*options] if name.startswith(("daily", "monthly", "concurrent"))}
    (key, record), opened = made(**limits), asyncio.Event()
    replies = stream(text_stream(upstream)) if streamed else answer(200, dump(reply(upstream)))
    async with (
        store_options(kind, folder) as store,
        ScriptedServer(*(scripts or ([Wait(opened), *replies],))) as server,
    ):
        config = keyed(server.url, upstream, record, store=replace(store, **options))
        async with gate(config, hooks=Hooks(prices=Prices())) as entrance:
            yield Team(entrance, server, opened, key, record)


@pytest.mark.turns
@pytest.mark.parametrize("kind", STORES)
async def test_parallel_requests_do_not_exceed_a_budget_of_cost(tmp_path: Path, kind: str) -> None:
    async with team(kind, tmp_path, CHAT, daily_cost=1.0) as up:
        found = await up.wave(MESSAGES, MANY)
        assert Counter(status for status, _, _ in found) == {200: 10, 429: MANY - 10}
        rejected = next(each for each in found if each[0] == 429)
        # Another one can be granted as soon as one has ended, so clients try again.
        assert "has used 0.00 of 1.00 for this day (UTC), its open requests reserve 1.00" in rejected[1]
        assert rejected[2]["retry-after"] == "1"
        assert "x-should-retry" not in rejected[2]
        assert await up.spent() == {"daily_cost": 10 * USED * 5 * UNITS // 1000}
        granted: list[int] = []
        while not granted or granted[-1]:
            found = await up.wave(MESSAGES, 12)
            granted.append(sum(status == 200 for status, _, _ in found))
            await up.spent()  # a client may have its reply before its settlement has arrived
        # 0.55 is left, then 0.325, 0.19, 0.145 and 0.1: as many requests as it covers.
        assert granted == [5, 3, 1, 1, 1, 0]
        assert await up.spent() == {"daily_cost": 21 * USED * 5 * UNITS // 1000}
        status, body, headers = await up.ask(MESSAGES)
        assert (status, headers["x-should-retry"]) == (429, "false")
        assert "needs up to 0.10, 0.10 of them for its longest reply; lower its output limit" in body
        assert (await up.ask(MESSAGES, max_tokens=10))[0] == 200


@pytest.mark.parametrize(("client", "upstream", "streamed"), DIRECTIONS)
async def test_every_dialect_reserves_the_output_limit_of_its_requests(
    tmp_path: Path, client: Dialect, upstream: Dialect, streamed: bool
) -> None:
    async with team("memory", tmp_path, upstream, streamed=streamed, daily_cost=1.0, monthly_tokens=10**6) as up:
        found = await up.wave(client, 30, stream=streamed)
        assert Counter(status for status, _, _ in found) == {200: 10, 429: 20}
        code = read_error(client, next(body for status, body, _ in found if status == 429).encode()).code
        assert code == (None if client is MESSAGES else "rate_limit_exceeded")


@pytest.mark.whole
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES], ids=str)
@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES], ids=str)
async def test_every_direction_and_store_reserves(
    tmp_path: Path, client: Dialect, upstream: Dialect, streamed: bool, kind: str
) -> None:
    async with team(kind, tmp_path, upstream, streamed=streamed, daily_cost=1.0) as up:
        found = await up.wave(client, MANY, stream=streamed)
        assert Counter(status for status, _, _ in found) == {200: 10, 429: MANY - 10}
        assert await up.spent() == {"daily_cost": 10 * USED * 5 * UNITS // 1000}


@pytest.mark.turns
@pytest.mark.parametrize("kind", STORES)
async def test_budgets_of_tokens_reserve_too(tmp_path: Path, kind: str) -> None:
    async with team(kind, tmp_path, CHAT, daily_tokens=1000) as up:
        found = await up.wave(CHAT, MANY, max_completion_tokens=200)
        granted = sum(status == 200 for status, _, _ in found)
        assert granted == 4  # the estimate of the prompt is reserved besides
        assert await up.spent() == {"daily_tokens": granted * 14}


async def test_several_choices_are_several_replies(tmp_path: Path) -> None:
    async with team("memory", tmp_path, CHAT, daily_cost=1.0) as up:
        found = await up.wave(CHAT, 20, n=2)
        assert Counter(status for status, _, _ in found) == {200: 5, 429: 15}


async def test_without_a_limit_the_default_is_reserved_as_far_as_there_is_room(tmp_path: Path) -> None:
    async with team("memory", tmp_path, CHAT, daily_cost=1.0, reserve_tokens=100) as up:
        found = await up.wave(CHAT, 20, max_completion_tokens=None)
        assert Counter(status for status, _, _ in found) == {200: 2, 429: 18}
    async with team("memory", tmp_path, CHAT, daily_cost=1.0, reserve_tokens=4096) as up:
        # It is more than the whole budget, but the request did not ask for it.
        found = await up.wave(CHAT, 20, max_completion_tokens=None)
        assert Counter(status for status, _, _ in found) == {200: 1, 429: 19}


async def test_reservations_can_be_turned_off(tmp_path: Path) -> None:
    async with team("memory", tmp_path, CHAT, daily_cost=1.0, reserve=False) as up:
        found = await up.wave(CHAT, 30)
        assert Counter(status for status, _, _ in found) == {200: 30}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    "script",
    [
        answer(400, b'{"error": {"message": "no"}}'),
        [Abort()],
        [Send(sse_head()), Abort()],
    ],
    ids=["rejected", "unreachable", "failed"],
)
async def test_what_fails_returns_its_reservation(tmp_path: Path, kind: str, script: list[Step]) -> None:
    async with team(kind, tmp_path, CHAT, script, streamed=True, daily_cost=1.0) as up:
        for _ in range(12):  # two more than the budget covers
            await up.ask(CHAT, stream=True)
            assert await up.spent() in ({}, {"daily_cost": 0})


@pytest.mark.parametrize("kind", STORES)
async def test_what_is_abandoned_returns_its_reservation(tmp_path: Path, kind: str) -> None:
    async with team(kind, tmp_path, CHAT, daily_cost=1.0) as up:
        tasks = [asyncio.create_task(up.ask(CHAT)) for _ in range(10)]
        await until(lambda: len(up.server.requests) == 10)
        assert (await up.ask(CHAT))[0] == 429
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not up.entrance.gateway.services.open_requests)
        await up.spent()
        up.open.set()
        assert [(await up.ask(CHAT))[0] for _ in range(5)] == [200] * 5
