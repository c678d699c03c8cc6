"""The store in Redis has names of keys, and times after which Redis itself deletes them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.threads import StoreError
from dragoman_server.proxy.runs.interface import LEASE, Change, Entry, NewRun, RunId
from dragoman_server.proxy.runs.redis import RedisRunStore
from support.redis_server import redis_server

SCHEMA = b"{p:runs}:schema"


async def test_keys_have_one_tag_and_an_end() -> None:
    with redis_server() as server:
        store = RedisRunStore(server.url, prefix="p", timeout=30.0)
        await store.open()
        names = [RunId("ab", "c"), RunId("a", "bc"), RunId("d\udc80", "e")]
        for name in names:
            assert await store.begin(NewRun(name, "host", b"", b"", b"", 5, 100.0))
            assert await store.write("host", [Change(name, 0, [Entry(1, 1, b"x")])])
        async with store._connection.call() as redis:
            keys: list[Any] = [key for key in await redis.keys("*") if key != SCHEMA]
            assert len(keys) == 3 * 2 + 3 + 1
            for key in keys:
                assert key.startswith(b"{p:runs}:")
                assert 90 < await redis.ttl(key) <= 100 or key == b"{p:runs}:leases"
            await store.write("host", [Change(name, kept=10.0) for name in names])
            assert await redis.zcard("{p:runs}:leases") == 0
            for key in {*await redis.keys("*")} - {SCHEMA}:
                assert 0 < await redis.ttl(key) <= 10
        await store.close()


async def test_a_redis_that_is_away_is_a_store_error() -> None:
    store = RedisRunStore("redis://127.0.0.1:9/0", timeout=1.0)
    with pytest.raises(StoreError, match="not open"):
        await store.get(RunId("", "x"))
    await store.open()
    for call in (store.get(RunId("", "x")), store.cancel(RunId("", "x")), store.take("host", 1)):
        with pytest.raises(StoreError, match="Redis"):
            await call
    await store.close()


@pytest.mark.parametrize("days", [-40, 40])
async def test_a_clock_that_jumps_takes_no_run_from_its_host_and_keeps_none_without_one(days: int) -> None:
    """Redis has the times that it would have if its clock had jumped just now."""
    name, jump = RunId("me", "resp_1"), days * 86_400_000
    with redis_server() as server:
        store = RedisRunStore(server.url, prefix="p", timeout=30.0)
        await store.open()
        assert await store.take("other", 10) == []
        assert await store.begin(NewRun(name, "host", b"", b"", b"", 5, 100.0))
        async with store._connection.call() as redis:
            await redis.zincrby("{p:runs}:leases", -jump, b"2:meresp_1")
            await redis.incrby("{p:runs}:searched", -jump)
            assert await store.take("other", 10) == [], "its host may be there"
            seconds, micros = await redis.time()
            until = await redis.zscore("{p:runs}:leases", b"2:meresp_1")
            assert until is not None
            assert 0 < until - (seconds * 1000 + micros // 1000) <= LEASE * 1000
            await redis.zadd("{p:runs}:leases", {b"2:meresp_1": 1})  # its lease is over
        assert [each.name for each in await store.take("other", 10)] == [name]
        await store.close()
