"""A Redis that has lost its data: known clients are served, and the gateway reports the loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from support.gateways import Gate, config_for, gate
from support.named_keys import made
from support.redis_server import RedisServer, redis_server
from support.samples import dump, reply
from support.sockets import ScriptedServer, answer
from support.waiting import until_true

CHAT = Dialect.CHAT


@dataclass
class Team:
    """A gateway whose keys are in Redis, which it reads every 20 ms, and the store as an operator uses it."""

    entrance: Gate
    redis: RedisServer
    store: RedisAccountStore

    async def status(self, key: str) -> int:
        async with self.entrance.post(CHAT, headers={"authorization": f"Bearer {key}"}) as response:
            await response.read()
            return int(response.status)

    async def ready(self) -> Any:
        async with self.entrance.session.get(f"{self.entrance.url}/ready?strict") as response:
            assert response.status == 200
            return await response.json()

    async def warned(self, *warnings: str) -> None:
        async def same() -> bool:
            return bool((await self.ready())["warnings"] == list(warnings))

        await until_true(same)

    async def polled(self, times: int = 3) -> None:
        """Wait until the gateway has read the keys a few times."""
        async with self.store.connection.call() as client:
            first = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]

            async def later() -> bool:
                return bool((await client.info("commandstats"))["cmdstat_evalsha"]["calls"] >= first + 2 * times)

            await until_true(later)


@asynccontextmanager
async def team(redis: RedisServer, *records: KeyRecord) -> AsyncIterator[Team]:
    options = StoreOptions("redis", url=redis.url, timeout=5.0, refresh=0.02)
    store = RedisAccountStore(options)
    await store.open()
    for record in records:
        await store.put_key(record)
    try:
        async with ScriptedServer(answer(200, dump(reply(CHAT)))) as server:
            config = replace(config_for(server.url, CHAT), store=options)
            async with gate(config) as entrance:
                yield Team(entrance, redis, store)
    finally:
        await store.close()


async def test_known_keys_stay_valid_after_all_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    (alice, first), (bob, second), (carol, third) = made("alice", daily_tokens=10**6), made("bob"), made("carol")
    with redis_server() as redis:
        async with team(redis, first, second) as up:
            assert [await up.status(key) for key in (alice, bob, carol)] == [200, 200, 401]
            async with up.store.connection.call() as client:
                await client.flushall()
            await up.warned("store_lost")
            advice = (await up.ready())["advice"]["store_lost"]
            assert "restore its data, or add the keys anew" in advice
            await up.polled()
            # A key that is not known may be one that was lost.
            assert [await up.status(key) for key in (alice, bob, carol)] == [200, 200, 503]
            await up.store.put_key(third)
            await until_true(lambda: _is(up.status(carol), 200))
            assert [await up.status(key) for key in (alice, bob)] == [200, 200]
            await up.store.remove_key(third.id)
            await until_true(lambda: _is(up.status(carol), 503))
        texts = [record.getMessage() for record in caplog.records if "lost keys" in record.getMessage()]
        assert len(texts) == 1, "it is not repeated at each reading"
        assert "2 that were read before stay valid" in texts[0]
        # A gateway that starts now knows what is there.
        await _holds(redis, third)
        async with team(redis) as up:
            assert [await up.status(key) for key in (alice, carol)] == [401, 200]
            await up.warned()


async def _is(asked: Any, status: int) -> bool:
    return bool(await asked == status)


async def _holds(redis: RedisServer, record: KeyRecord) -> None:
    store = RedisAccountStore(StoreOptions("redis", url=redis.url, timeout=5.0))
    await store.open()
    await store.put_key(record)
    await store.close()


async def test_known_keys_stay_valid_after_a_restart_without_data() -> None:
    (alice, first), (bob, second) = made("alice"), made("bob")
    with redis_server() as redis:
        async with team(redis, first, second) as up:
            assert await up.status(alice) == 200
            await asyncio.to_thread(redis.kill)
            await up_again(redis, up)
            await up.warned("store_lost")
            assert [await up.status(key) for key in (alice, bob)] == [200, 200]


async def up_again(redis: RedisServer, up: Team) -> None:
    accounts = up.entrance.gateway.services.named_keys.accounts
    assert accounts is not None
    await until_true(lambda: _not(accounts.healthy))
    await asyncio.to_thread(redis.start)
    await until_true(lambda: _not(not accounts.healthy))


async def _not(value: bool) -> bool:
    return not value


async def test_an_older_copy_of_the_data_loses_no_known_key(tmp_path: Path) -> None:
    """As after a failover to a replica that was late: the store goes on from an earlier version."""
    (alice, first), (bob, second), (carol, third) = made("alice"), made("bob"), made("carol")
    with redis_server() as redis:
        async with team(redis, first) as up:
            copy = await dumped(up)
            await up.store.put_key(second)
            await until_true(lambda: _is(up.status(bob), 200))
            whole = await dumped(up)
            await restored(up, copy)
            await up.store.put_key(third)  # the same number of changes as before
            await until_true(lambda: _is(up.status(carol), 200))
            assert [await up.status(key) for key in (alice, bob)] == [200, 200]
            await up.warned("store_lost")
            # With the data that it had, the store is whole again, and what was not in it is gone.
            await restored(up, whole)
            await up.warned()
            assert [await up.status(key) for key in (alice, bob, carol)] == [200, 200, 401]


async def dumped(up: Team) -> dict[bytes, bytes]:
    """A copy of all keys of the store, as its backup is."""
    from redis.asyncio import Redis

    async with Redis.from_url(up.redis.url) as client:
        names = [name async for name in client.scan_iter("{dragoman:keys}*")]
        return {name: data for name in names if (data := await client.dump(name)) is not None}


async def restored(up: Team, copy: dict[bytes, bytes]) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(up.redis.url) as client, client.pipeline(transaction=True) as all_at_once:
        _ = all_at_once.flushall()
        for name, data in copy.items():
            _ = all_at_once.restore(name, 0, data)
        await all_at_once.execute()


async def test_eviction_is_warned_about_and_locks_no_client_out(caplog: pytest.LogCaptureFixture) -> None:
    (alice, first), (bob, second) = made("alice"), made("bob")
    with redis_server(options=("--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")) as redis:
        async with team(redis, first, second) as up:
            assert [await up.status(key) for key in (alice, bob)] == [200, 200]
            assert "Redis may evict keys and budgets: its maxmemory-policy is allkeys-random" in caplog.text
            async with asyncio.timeout(60):
                number, text = 0, "x" * 10_000
                async with up.store.connection.call() as client:
                    while await client.exists("{dragoman:keys}"):
                        await client.set(f"other-{number}", text)
                        number += 1
            await up.warned("store_lost")
            assert [await up.status(key) for key in (alice, bob)] == [200, 200]


async def test_a_key_that_is_revoked_is_refused() -> None:
    (alice, first), (bob, second) = made("alice"), made("bob")
    with redis_server() as redis:
        async with team(redis, first, second) as up:
            assert await up.status(alice) == 200
            for record in (first, second):
                await up.store.remove_key(record.id)
            await until_true(lambda: _is(up.status(alice), 401))
            await until_true(lambda: _is(up.status(bob), 401))
            await up.warned()
