"""A Redis that fails: the errors state what to do, come in time, and end when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.threads import RedisStore, StoreError
from dragoman.threads.store.redis import SCHEMA
from dragoman.threads.store.redis_connection import RedisConnection
from support.redis_server import RedisServer, redis_server
from support.thread_stores import ids, node
from support.waiting import until_true


@pytest.fixture
async def store(redis: RedisServer) -> AsyncIterator[RedisStore]:
    made = RedisStore(redis.url, timeout=5.0)
    await made.open()
    async with made._connection.call() as client:
        await client.flushall()
    yield made
    await made.close()


async def client_call(store: RedisStore, *command: str) -> Any:
    async with store._connection.call() as client:
        redis: Any = client
        return await redis.execute_command(*command)


async def answers(store: RedisStore) -> None:
    """Wait until a store answers."""

    async def tried() -> bool:
        try:
            await store.get("k", "a")
        except StoreError:
            return False
        return True

    await until_true(tried)


async def test_it_recovers_when_redis_is_back(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        store = RedisStore(server.url, timeout=5.0)
        await store.open()
        await store.put(node("k", "a"))
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreError, match="check that Redis runs"):
            await store.put(node("k", "b"))
        with pytest.raises(StoreError, match="check that Redis runs"):
            await store.path("k", "a")
        await asyncio.to_thread(server.start)
        await answers(store)  # a server that has just started may still read its file
        await store.put(node("k", "c", "a"))
        assert ids(await store.path("k", "c")) == ["a", "c"]
        await store.close()


async def test_a_redis_that_hangs_fails_within_the_timeout(redis: RedisServer) -> None:
    store = RedisStore(redis.url, prefix="frozen", timeout=0.3)
    await store.open()
    await store.put(node("k", "a"))
    redis.freeze()
    try:
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s"):
            await asyncio.wait_for(store.put(node("k", "b")), 30)
        with pytest.raises(StoreError, match=r"did not answer within 0\.3 s"):
            await asyncio.wait_for(store.path("k", "a"), 30)
    finally:
        redis.thaw()
    await answers(store)
    assert ids(await store.path("k", "a")) == ["a"]
    await store.close()


async def test_a_redis_without_memory_fails_a_write_and_no_read(redis: RedisServer, store: RedisStore) -> None:
    await store.put(node("k", "a"))
    await client_call(store, "CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(StoreError, match="has reached its maxmemory: raise it, or store less"):
            await store.put(node("k", "b"))
        assert await store.get("k", "a") == node("k", "a")
        assert await store.delete("k", "a")  # this makes room
    finally:
        await client_call(store, "CONFIG", "SET", "maxmemory", "0")
    await store.put(node("k", "b"))
    assert await client_call(store, "HGET", "{dragoman:responses}:totals", "nodes") == b"1"


async def test_a_replica_cannot_be_written(store: RedisStore) -> None:
    await client_call(store, "REPLICAOF", "127.0.0.1", "9")
    try:
        with pytest.raises(StoreError, match="it is a replica"):
            await store.put(node("k", "a"))
    finally:
        await client_call(store, "REPLICAOF", "NO", "ONE")


async def test_a_redis_that_cannot_write_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with redis_server(options=("--dir", str(folder))) as server:
        store = RedisStore(server.url)
        await store.open()
        await store.put(node("k", "a"))
        folder.rmdir()
        await client_call(store, "CONFIG", "SET", "save", "1 1")
        await client_call(store, "BGSAVE")

        async def failed() -> bool:
            info = await client_call(store, "INFO", "persistence")
            return str(info["rdb_last_bgsave_status"]) == "err"

        await until_true(failed)
        with pytest.raises(StoreError, match="cannot write its own file: make room"):
            await store.put(node("k", "b"))
        await store.close()


async def test_a_wrong_password_is_an_error_without_it() -> None:
    with redis_server(options=("--requirepass", "right-7q3z")) as server:
        for url in (server.url, server.url.replace("//", "//:wrong-7q3z@")):
            store = RedisStore(url)
            await store.open()
            with pytest.raises(StoreError, match="check the user and the password") as caught:
                await store.get("k", "a")
            assert "7q3z" not in str(caught.value)
            await store.close()
        store = RedisStore(server.url.replace("//", "//:right-7q3z@"))
        await store.open()
        await store.put(node("k", "a"))
        await store.close()


async def test_data_of_a_later_version_is_not_used(redis: RedisServer) -> None:
    store = RedisStore(redis.url, prefix="later", setting="state.url")
    await store.open()
    await store.put(node("k", "a"))
    assert await client_call(store, "GET", "{later:responses}:schema") == b"%d" % SCHEMA
    await client_call(store, "SET", "{later:responses}:schema", str(SCHEMA + 1))
    for setting, cure in (("state.url", r"change state\.prefix$"), ("its URL", "change the prefix$")):
        later = RedisStore(redis.url, prefix="later", setting=setting)
        await later.open()
        for _ in range(2):
            with pytest.raises(
                StoreError, match=f"schema version {SCHEMA + 1}, of a later Dragoman: run that, or {cure}"
            ):
                await later.get("k", "a")
        await client_call(store, "SET", "{later:responses}:schema", "0")
        assert await later.get("k", "a") is not None, "the data was replaced"
        assert await client_call(store, "GET", "{later:responses}:schema") == b"%d" % SCHEMA
        await client_call(store, "SET", "{later:responses}:schema", str(SCHEMA + 1))
        await later.close()
    await store.close()


async def test_an_address_that_is_none() -> None:
    with pytest.raises(StoreError, match="the URL of Redis is not valid") as caught:
        await RedisStore("http://canary-7q3z").open()
    assert "canary" not in str(caught.value)


async def test_a_store_that_is_not_open() -> None:
    with pytest.raises(StoreError, match="not open"):
        await RedisStore("redis://127.0.0.1:9/0").get("k", "a")


@pytest.mark.parametrize("error", [None, OSError("closed"), TimeoutError()])
async def test_a_cancellation_that_the_client_catches_is_raised(error: Exception | None) -> None:
    """A task that is cancelled at the end of a gateway would go on."""
    connection, began = RedisConnection("redis://127.0.0.1:1/0", 30.0), asyncio.Event()

    async def call() -> None:
        async with connection.errors():
            began.set()
            try:
                await asyncio.sleep(60.0)
            except asyncio.CancelledError:
                if error is not None:
                    raise error from None

    task = asyncio.create_task(call())
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
