"""The store of hosts in Redis: its faults, its keys, and a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman_server.proxy.hosts.interface import Batch, StoredReceipt
from dragoman_server.proxy.hosts.redis import RedisHostStore
from support.redis_nodes import redis_cluster
from support.redis_server import redis_server


async def test_redis_that_is_away_is_an_error_and_may_come_back() -> None:
    with redis_server() as server:
        store = RedisHostStore(server.url, kept=60.0, timeout=5.0)
        server.kill()
        await store.open()
        with pytest.raises(StoreError):
            await store.write(Batch("a", b"{}"))
        server.start()
        assert not (await store.write(Batch("a", b"{}"))).watched
        await store.close()
        with pytest.raises(StoreError, match="not open"):
            await store.read()


async def test_nothing_is_kept_for_ever() -> None:
    with redis_server() as server:
        store = RedisHostStore(server.url, kept=60.0, timeout=30.0)
        await store.open()
        receipt = StoredReceipt("req_1", "alice", b"{}", b"{}")
        await store.write(Batch("a", b"{}", [receipt], [b"{}"], b"[]"))
        await store.read(watch=True)
        await store.ask("b", "req_2")
        async with store._connection.call() as redis:
            names = await redis.keys("*")
            ends = [await redis.pttl(name) for name in names]
        assert len(names) == 10
        assert min(ends) > 0
        await store.close()


async def test_a_cluster(tmp_path: Path) -> None:
    with redis_cluster(tmp_path) as nodes:
        url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
        store = RedisHostStore(url, kept=60.0, timeout=30.0)
        await store.open()
        await store.write(Batch("a", b"{}", [StoredReceipt("req_1", "alice", b"{}", b"{}")], [b"row"]))
        assert (await store.read("", 9)).rows == [b"row"]
        assert await store.receipts("alice", 9) == [b"{}"]
        await store.close()
