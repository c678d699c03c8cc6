"""The store in Redis: who shares it, how many round trips it takes, and what Redis itself deletes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.threads import NodeCipher, RedisStore, StoreError
from support.redis_server import RedisServer
from support.thread_stores import KEY, ids, node


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisStore]:
    made = RedisStore(redis.url, timeout=5.0)
    await made.open()
    async with made._connection.call() as client:
        await client.flushall()
    yield made
    await made.close()


async def calls(store: RedisStore) -> int:
    """The round trips so far."""
    async with store._connection.call() as client:
        info = await client.info("commandstats")
    # Commands that a script calls are counted too.
    return sum(info[name]["calls"] for name in ("cmdstat_evalsha", "cmdstat_eval", "cmdstat_hmget") if name in info)


async def test_two_gateways_share_what_is_stored(store: RedisStore, redis: RedisServer) -> None:
    other = RedisStore(redis.url)
    await other.open()
    await asyncio.gather(*(each.put(node("k", f"{n}.{i}")) for i in range(40) for n, each in enumerate((store, other))))
    assert await store.get("k", "1.39") is not None
    await other.put(node("k", "next", "0.7"))
    assert ids(await store.path("k", "next")) == ["0.7", "next"]
    await other.close()


async def test_other_prefixes_are_other_stores(store: RedisStore, redis: RedisServer) -> None:
    other = RedisStore(redis.url, prefix="other")
    await other.open()
    await store.put(node("k", "a"))
    assert await other.get("k", "a") is None
    await other.close()


async def test_a_path_of_any_length_takes_few_round_trips(store: RedisStore) -> None:
    for number in range(600):
        await store.put(node("k", f"n{number}", f"n{number - 1}" if number else None))
    before = await calls(store)
    path = await store.path("k", "n599")
    assert ids(path) == [f"n{number}" for number in range(600)]
    assert await calls(store) - before == 4
    assert await store.tree("k", "n3") == path
    assert await store.get("k", "n300") == node("k", "n300", "n299")


async def test_large_responses_are_read_in_several_round_trips(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisStore, "READ_BYTES", 1000)
    for number in range(4):
        await store.put(node("k", f"n{number}", f"n{number - 1}" if number else None, text="x" * 600))
    before = await calls(store)
    assert ids(await store.path("k", "n3")) == ["n0", "n1", "n2", "n3"]
    assert await calls(store) - before == 5
    assert ids(await store.tree("k", "n3")) == ["n0", "n1", "n2", "n3"]


async def test_a_response_that_is_deleted_while_a_path_is_read(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RedisStore, "READ_NODES", 2)
    for number in range(5):
        await store.put(node("k", f"n{number}", f"n{number - 1}" if number else None))
    read = store._nodes

    async def deleting(*args: Any) -> Any:
        await store.delete("k", "n1")
        return await read(*args)

    monkeypatch.setattr(store, "_nodes", deleting)
    assert await store.path("k", "n4") is None
    assert ids(await store.tree("k", "n4")) == ["n0", "n2", "n3", "n4"]


async def test_redis_deletes_what_no_gateway_deletes(store: RedisStore) -> None:
    await store.put(node("k", "a"))
    async with store._connection.call() as client:
        (key,) = [key async for key in client.scan_iter("*:data:*")]
        assert 30 * 86_400 < await client.ttl(key) <= 30 * 86_400 + 3600
        await client.delete(key)
    assert await store.get("k", "a") is None
    assert await store.path("k", "a") is None
    assert await store.tree("k", "a") == []
    assert await store.delete("k", "a")


async def test_what_is_encrypted_is_not_readable_in_redis(redis: RedisServer) -> None:
    store = RedisStore(redis.url, prefix="secret", codec=NodeCipher(KEY))
    await store.open()
    await store.put(node("k", "a", text="a very secret text"))
    async with store._connection.call() as client:
        (key,) = [key async for key in client.scan_iter("*secret*:data:*")]
        found = await client.hgetall(key)
        assert list(found) == [b"a"]
        assert b"very secret" not in found[b"a"].lower()
    plain = RedisStore(redis.url, prefix="secret")
    await plain.open()
    with pytest.raises(StoreError, match="is encrypted, and no key"):
        await plain.get("k", "a")
    await plain.close()
    await store.close()
