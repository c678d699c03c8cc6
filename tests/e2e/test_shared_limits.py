"""Two gateway processes share limits over a real Redis, also while it is killed, frozen, and comes back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from support.commands import command
from support.exposed import read_exposition, total
from support.fleet import fleet
from support.gateways import served
from support.named_keys import made
from support.redis_server import RedisServer, redis_server
from support.samples import PATHS, dump, reply, request
from support.waiting import PATIENCE

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
USED = 100
"""Tokens of each reply."""


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@dataclass
class Upstream:
    """Replies after a moment, and counts what it is asked for."""

    seconds: float = 0.02
    count: int = 0
    open: int = 0
    most: int = 0
    url: str = ""

    @property
    def tokens(self) -> int:
        return self.count * USED

    async def answer(self, _: web.Request) -> web.Response:
        self.count += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.open -= 1
        body = reply(CHAT) | {"usage": {"prompt_tokens": 10, "completion_tokens": 90, "total_tokens": USED}}
        return web.Response(body=dump(body), content_type="application/json")


@dataclass
class Team:
    """Gateways with one store, and what they sent upstream."""

    urls: Sequence[str]
    upstream: Upstream
    key: str
    record: KeyRecord
    redis: RedisServer
    session: aiohttp.ClientSession
    slowest: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)

    async def ask(self, number: int = 0, client: Dialect = MESSAGES) -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of a request to one of the gateways."""
        headers = {"x-api-key": self.key, "content-type": "application/json"}
        started = time.monotonic()
        url = self.urls[number % len(self.urls)] + PATHS[client]
        async with self.session.post(url, data=dump(request(client)), headers=headers) as response:
            text = await response.text()
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.statuses[response.status] += 1
        return response.status, text, {name.lower(): value for name, value in response.headers.items()}

    async def health(self) -> list[str]:
        """Return what the gateways state of themselves."""
        found = []
        for url in self.urls:
            async with self.session.get(f"{url}/health") as response:
                found.append(await response.text())
        return found

    async def becomes(self, *, healthy: bool) -> None:
        """Wait until all gateways state that the store answers, or that it does not."""
        async with asyncio.timeout(30):
            while True:
                if not any(("unavailable" in text) is healthy for text in await self.health()):
                    return
                await asyncio.sleep(0.05)

    async def metrics(self, number: int = 0) -> Any:
        """The numbers of one gateway."""
        async with self.session.get(f"{self.urls[number]}/metrics", headers={"x-api-key": self.key}) as response:
            return read_exposition(await response.read())

    async def spent(self) -> int:
        """Return what the store has counted for the key."""
        store = RedisAccountStore(StoreOptions("redis", url=self.redis.url, timeout=5))
        await store.open()
        try:
            return sum(each.amount for each in await store.spent(self.record.id))
        finally:
            await store.close()

    async def counts(self, tokens: int) -> None:
        """Wait until the store has counted so many tokens, and then a little, as it must not count more."""
        async with asyncio.timeout(30):
            found = -1
            while found != tokens:
                found = await self.spent()
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        assert await self.spent() == tokens


@asynccontextmanager
async def team(
    redis: RedisServer, folder: Path, store: str = "", gateways: int = 2, **limits: Any
) -> AsyncIterator[Team]:
    """Gateway processes with one key."""
    key, record = made(admin=True, **limits)
    upstream = Upstream()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", upstream.answer)
    async with served(app) as (upstream.url, _):
        lines = [f"{name} = {value}" for name, value in asdict(record.limits).items() if value]
        path = folder / "dragoman.toml"
        await asyncio.to_thread(
            path.write_text,
            f'[models]\ndiscover = false\n[store]\nkind = "redis"\nurl = "${{REDIS}}"\n{store}\n'
            f'[keys.alice]\nhash = "{record.hash}"\nadmin = true\n' + "\n".join(lines) + "\n"
            f'[providers.up]\ndialect = "chat"\nbase_url = "{upstream.url}/v1"\n'
            '[[routes]]\nmodel = "*"\nprovider = "up"\n',
        )
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            found = Team([], upstream, key, record, redis, session)
            async with _gateways(path, gateways, redis) as found.urls:
                yield found


@asynccontextmanager
async def _gateways(path: Path, count: int, redis: RedisServer) -> AsyncIterator[list[str]]:
    if not count:
        yield []
        return
    async with (
        command("serve", "--port", "0", str(path), REDIS=redis.url) as process,
        _gateways(path, count - 1, redis) as others,
    ):
        yield [(await process.writes(r"dragoman listens on (http://\S+)"))[1], *others]


async def test_two_gateways_never_overspend_by_more_than_was_in_flight(redis: RedisServer, tmp_path: Path) -> None:
    budget, clients = 5_000, 12
    async with team(redis, tmp_path, daily_tokens=budget) as up:

        async def client(number: int) -> None:
            while (await up.ask(number))[0] == 200:
                pass

        await asyncio.gather(*(client(number) for number in range(clients)))
        assert set(up.statuses) == {200, 429}
        # A client may send its next request before the previous one is settled: both are in flight for the store.
        assert budget - USED <= up.upstream.tokens <= budget + 2 * clients * USED
        assert up.upstream.most <= clients
        # Both were used, and what was counted is what the upstream served.
        await up.counts(up.upstream.tokens)
        for number in range(2):
            status, text, headers = await up.ask(number)
            assert status == 429
            assert f"of {budget} for this day" in text
            assert headers["x-should-retry"] == "false"
            assert total(await up.metrics(number), "dragoman_requests_total", ended="completed") > 0


async def test_two_gateways_share_requests_per_minute_and_open_requests(redis: RedisServer, tmp_path: Path) -> None:
    async with team(redis, tmp_path, requests_per_minute=40, concurrent_requests=3) as up:
        up.upstream.seconds = 0.3
        statuses = [status for status, _, _ in await asyncio.gather(*(up.ask(number) for number in range(12)))]
        assert statuses.count(200) == 3
        assert up.upstream.most == 3
        up.upstream.seconds = 0.0
        started = time.monotonic()
        for number in range(60):
            await up.ask(number)
        flowed = (time.monotonic() - started + 5) * 40 / 60
        assert 40 <= up.upstream.count <= 40 + flowed


async def test_redis_is_killed_and_comes_back_while_requests_are_admitted(redis: RedisServer, tmp_path: Path) -> None:
    async with team(redis, tmp_path, daily_tokens=10**6) as up:
        for number in range(4):
            assert (await up.ask(number))[0] == 200
        await up.counts(4 * USED)
        assert not any("store" in text for text in await up.health())
        await asyncio.to_thread(redis.kill)
        up.slowest = 0.0
        for number in range(10):
            assert (await up.ask(number))[0] == 200
        assert up.slowest < PATIENCE
        await up.becomes(healthy=False)
        samples = await up.metrics()
        assert total(samples, "dragoman_store_up") == 0
        assert total(samples, "dragoman_store_unchecked_total", result="admitted") == 5
        assert total(samples, "dragoman_store_errors_total") >= 1
        await asyncio.to_thread(redis.start)
        await up.becomes(healthy=True)
        # The new server is empty. What ended without it is counted now.
        await up.counts(10 * USED)
        assert (await up.ask())[0] == 200
        await up.counts(11 * USED)
        assert total(await up.metrics(), "dragoman_store_up") == 1


async def test_requests_are_rejected_without_redis_if_the_configuration_demands_it(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with team(redis, tmp_path, 'on_failure = "closed"', gateways=1, daily_tokens=10**6) as up:
        assert (await up.ask())[0] == 200
        await asyncio.to_thread(redis.kill)
        up.slowest = 0.0
        for client in (CHAT, MESSAGES, CHAT):
            status, text, headers = await up.ask(client=client)
            assert status == (529 if client is MESSAGES else 503)
            assert headers["retry-after"] == "1"
            assert "cannot be checked" in text
        assert up.slowest < PATIENCE
        assert up.upstream.count == 1
        await asyncio.to_thread(redis.start)
        await up.becomes(healthy=True)
        assert (await up.ask())[0] == 200


async def test_a_frozen_redis_hangs_no_request_and_counts_each_once(redis: RedisServer, tmp_path: Path) -> None:
    async with team(redis, tmp_path, gateways=1, daily_tokens=10**6) as up:
        for _ in range(3):
            assert (await up.ask())[0] == 200
        await up.counts(3 * USED)
        redis.freeze()
        up.slowest = 0.0
        statuses = [status for status, _, _ in await asyncio.gather(*(up.ask() for _ in range(6)))]
        assert statuses == [200] * 6
        assert up.slowest < PATIENCE
        await up.becomes(healthy=False)
        redis.thaw()
        await up.becomes(healthy=True)
        # Claims that were on their way are taken back, and all that was used is counted.
        await up.counts(9 * USED)


async def test_a_gateway_starts_without_redis(redis: RedisServer, tmp_path: Path) -> None:
    await asyncio.to_thread(redis.kill)
    async with team(redis, tmp_path, gateways=1, daily_tokens=10**6) as up:
        # A named key of the configuration is known; those of the store are not.
        assert (await up.ask())[0] == 200
        up.key, known = made("bob")[0], up.key
        status, text, _ = await up.ask(client=CHAT)
        assert status == 503
        assert "keys cannot be read" in text
        await asyncio.to_thread(redis.start)
        await up.becomes(healthy=True)
        async with asyncio.timeout(30):
            while status != 401:
                status, _, _ = await up.ask()
                await asyncio.sleep(0.05)
        up.key = known
        assert (await up.ask())[0] == 200


async def test_the_workers_of_one_gateway_share_limits_in_sqlite(tmp_path: Path) -> None:
    key, record = made(requests_per_minute=5, daily_tokens=10**6, admin=True)
    upstream = Upstream(seconds=0.0)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", upstream.answer)
    path = tmp_path / "dragoman.toml"
    async with served(app) as (url, _):
        await asyncio.to_thread(
            path.write_text,
            f'[models]\ndiscover = false\n[store]\nkind = "sqlite"\npath = "{tmp_path}/limits.db"\ntimeout = 5\n'
            f'[keys.alice]\nhash = "{record.hash}"\nadmin = true\nrequests_per_minute = 5\ndaily_tokens = 1_000_000\n'
            f'[providers.up]\ndialect = "chat"\nbase_url = "{url}/v1"\n[[routes]]\nmodel = "*"\nprovider = "up"\n',
        )
        async with fleet(str(path), workers=2) as up:
            headers = {"x-api-key": key, "content-type": "application/json"}
            replies = await asyncio.gather(*(up.ask(CHAT, headers=headers) for _ in range(12)))
            assert [reply.status for reply in replies].count(200) == 5
            samples = await up.metrics(**{"x-api-key": key})
            assert total(samples, "dragoman_store_up") == 2
            assert total(samples, "dragoman_limit_rejections_total", limit="requests") == 7
