"""The functions of the store in PostgreSQL: names of any form, exact counts, and removal in pieces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from dragoman.threads import NotStored, PostgresStore, ThreadLimits
from dragoman.threads.store import postgres as postgres_store
from support.postgres_server import PostgresServer
from support.thread_stores import ids, node

_NUMBERS = itertools.count()


@pytest.fixture
def schema() -> str:
    return f"own-{next(_NUMBERS)}"


@pytest.fixture
async def store(postgres: PostgresServer, schema: str) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(postgres.url, schema=schema, timeout=30.0) as made:
        yield made


async def test_names_of_owners_and_ids_of_any_form(store: PostgresStore) -> None:
    names = ("1:a", "1", "'a'", "a\0b", "\udc80", "ü", "", "%s", "$1")
    for owner in names:
        await store.put(node(owner, "r\0", text=f"of {owner!a}"))
        await store.put(node(owner, "a", "r\0"))
    for owner in names:
        path = await store.path(owner, "a")
        assert path is not None
        assert path[0] == node(owner, "r\0", text=f"of {owner!a}")
        assert ids(path) == ["r\0", "a"]


async def test_counts_stay_exact_while_many_change_the_store(store: PostgresStore, schema: str) -> None:
    async def change(number: int) -> None:
        owner, name = f"o{number % 3}", f"n{number}"
        await store.put(node(owner, name))
        await store.put(node(owner, f"{name}-next", name))
        if number % 2:
            await store.delete(owner, name)

    await asyncio.gather(*map(change, range(60)))
    async with store._connection.call() as db:
        sql = store._connection.sql
        totals = await db.fetchrow(sql("SELECT nodes, size FROM SCHEMA.totals"))
        counted = await db.fetchrow(sql("SELECT count(*), sum(size) FROM SCHEMA.responses"))
        kept = await db.fetchrow(sql("SELECT sum(nodes), sum(size) FROM SCHEMA.conversations"))
        owned = await db.fetchval(sql("SELECT sum(size) FROM SCHEMA.owners"))
    assert tuple(totals) == tuple(counted) == tuple(kept) == (90, owned)


async def test_a_limit_that_was_lowered_removes_in_pieces(
    store: PostgresStore, postgres: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "_REMOVED_AT_ONCE", 2)
    for number in range(20):
        await store.put(node("k", f"n{number}"))
    limits = ThreadLimits(nodes=3)
    async with PostgresStore(postgres.url, limits, schema=schema, timeout=30.0) as small:
        await small.put(node("k", "last"))
        assert [await small.get("k", name) is not None for name in ("n17", "n18", "n19", "last")] == [0, 1, 1, 1]
        with pytest.raises(NotStored, match="no longer stored"):
            await small.put(node("k", "x", "n17"))
