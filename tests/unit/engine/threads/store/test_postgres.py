"""The store in PostgreSQL: who shares it, and long paths."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from dragoman.threads import PostgresStore, StoreError, ThreadLimits
from support.postgres_server import PostgresServer
from support.stores import Clock
from support.thread_stores import ids, node

_NUMBERS = itertools.count()


@pytest.fixture
def schema() -> str:
    return f"own-{next(_NUMBERS)}"


@pytest.fixture
async def store(postgres: PostgresServer, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(postgres.url, schema=schema, timeout=30.0) as made:
        yield made


async def test_two_gateways_share_what_is_stored(store: PostgresStore, postgres: PostgresServer, schema: str) -> None:
    async with PostgresStore(postgres.url, schema=schema, timeout=30.0) as other:
        puts = [each.put(node("k", f"{n}.{i}")) for i in range(40) for n, each in enumerate((store, other))]
        await asyncio.gather(*puts)
        assert await store.get("k", "1.39") is not None
        await other.put(node("k", "next", "0.7"))
        assert ids(await store.path("k", "next")) == ["0.7", "next"]
        await store.delete("k", "0.7")
        assert await other.path("k", "next") is None


async def test_other_schemas_are_other_stores(store: PostgresStore, postgres: PostgresServer) -> None:
    async with PostgresStore(postgres.url, schema='o"ther', timeout=30.0) as other:
        await store.put(node("k", "a"))
        assert await other.get("k", "a") is None


async def test_all_that_has_expired_is_removed(postgres: PostgresServer, schema: str) -> None:
    clock = Clock()
    limits = ThreadLimits(ttl=10.0)
    async with PostgresStore(postgres.url, limits, schema=schema, timeout=30.0, clock=clock) as store:
        for number in range(40):
            await store.put(node("k", f"n{number}"))
        clock.now += 11
        assert await store.expire() == 40
        async with store._connection.call() as db:
            found = await db.fetchrow(store._connection.sql("SELECT sum(nodes), sum(size) FROM SCHEMA.totals"))
            assert tuple(found) == (0, 0)


async def test_a_path_of_any_length_is_read(store: PostgresStore) -> None:
    for number in range(600):
        await store.put(node("k", f"n{number}", f"n{number - 1}" if number else None))
    path = await store.path("k", "n599")
    assert ids(path) == [f"n{number}" for number in range(600)]
    assert await store.tree("k", "n3") == path
    assert len(await store.tree_outline("k", "n3", 5)) == 5


async def test_a_closed_store_raises(store: PostgresStore) -> None:
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        await store.get("k", "a")


async def test_a_database_that_is_read_only_does_not_appear_to_answer(store: PostgresStore) -> None:
    await store.put(node("k", "a"))
    async with store._connection.call() as db:  # the pool gives this one out again
        await db.execute("SET default_transaction_read_only = on")
    for call in (lambda: store.put(node("k", "b")), store.expire):
        with pytest.raises(StoreError, match="name the primary in its URL; a primary may be read-only too"):
            await call()
    async with store._connection.call() as db:
        await db.execute("SET default_transaction_read_only = off")
    assert await store.expire() == 0
