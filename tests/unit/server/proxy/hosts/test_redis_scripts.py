"""The Lua scripts of the store of hosts."""

from __future__ import annotations

from dragoman_server.proxy.hosts import redis_scripts as scripts
from dragoman_server.proxy.hosts.interface import Batch, StoredReceipt
from dragoman_server.proxy.hosts.redis import RedisHostStore
from support.redis_server import redis_server


def test_all_keys_have_one_hash_tag() -> None:
    for script in (scripts.WRITE, scripts.READ, scripts.LEAVE, scripts.RECEIPT, scripts.RECEIPTS, scripts.ASK):
        assert "local K = KEYS[1]" in script
        assert "KEYS[2]" not in script


async def test_the_sum_of_bytes_is_that_of_the_receipts() -> None:
    with redis_server() as server:
        store = RedisHostStore(server.url, kept=60.0, timeout=30.0, most=5)
        await store.open()
        for turn in range(4):
            for number in range(7):
                view = b"x" * (100 * number + turn)
                await store.write(Batch("a", b"{}", [StoredReceipt(f"req_{number}", "alice", b"{}", view)]))
        async with store._connection.call() as redis:
            key = "{dragoman:hosts}"
            names = await redis.keys(f"{key}:receipt:*")
            sizes = [await redis.hstrlen(name, "s") + await redis.hstrlen(name, "v") for name in names]
            assert len(names) == await redis.zcard(f"{key}:receipts") == 5
            assert sum(sizes) == int(await redis.get(f"{key}:bytes") or 0)
        await store.close()
