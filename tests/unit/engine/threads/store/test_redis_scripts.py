"""The scripts of the Redis store: names of any form, exact counts, and removal in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dragoman.threads import RedisStore, ThreadLimits
from support.redis_server import RedisServer
from support.stores import Clock
from support.thread_stores import node


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisStore]:
    made = RedisStore(redis.url, timeout=5.0)
    await made.open()
    async with made._connection.call() as client:
        await client.flushall()
    yield made
    await made.close()


async def test_names_of_owners_and_ids_of_any_form(store: RedisStore) -> None:
    names = ("1:a", "1", "a", "{x}", "a b", "ü", "")
    for owner in names:
        await store.put(node(owner, "1:r", text=f"of {owner}"))
        await store.put(node(owner, "a", "1:r"))
    for owner in names:
        assert await store.path(owner, "a") == [node(owner, "1:r", text=f"of {owner}"), node(owner, "a", "1:r")]
        assert await store.delete(owner, "1:r")
        assert await store.path(owner, "a") is None


async def test_limits_that_are_lowered_remove_what_is_too_much(store: RedisStore, redis: RedisServer) -> None:
    for number in range(60):
        await store.put(node("k", f"n{number}"))
    lower = RedisStore(redis.url, ThreadLimits(nodes=5))
    await lower.open()
    await lower.put(node("k", "last"))
    assert [await lower.get("k", name) is not None for name in ("n55", "n56", "n59", "last")] == [
        False,
        True,
        True,
        True,
    ]
    await lower.close()


async def test_nothing_is_left_when_all_is_deleted_or_expired(redis: RedisServer) -> None:
    clock = Clock()
    store = RedisStore(redis.url, prefix="left", clock=clock)
    await store.open()
    for number in range(20):
        for owner in ("a", "b"):
            await store.put(node(owner, f"n{number}", f"n{number - 1}" if number % 3 else None))
    for name in ("n0", "n1", "n2", "n7"):
        assert await store.delete("a", name)
    clock.now += 31 * 86_400
    assert await store.expire() == 36
    async with store._connection.call() as client:
        left = {key async for key in client.scan_iter("*left*")}
        written = b"{left:responses}:written"  # it ends by itself
        assert left == {(totals := b"{left:responses}:totals"), b"{left:responses}:schema", written}
        assert await client.hmget(totals, ["nodes", "size"]) == [b"0", b"0"]
    await store.close()
