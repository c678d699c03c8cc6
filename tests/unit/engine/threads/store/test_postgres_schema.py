"""The functions of the store in PostgreSQL: names of any form, exact counts, and removal in pieces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dragoman.threads import NotStored, PostgresStore, ThreadLimits
from dragoman.threads.store import postgres as postgres_store
from dragoman.threads.store import postgres_schema as statements
from dragoman.threads.store.postgres_connection import PostgresConnection, SchemaPart
from support.paths import TESTS
from support.postgres_server import PostgresServer
from support.thread_stores import ids, node
from support.waiting import until_true

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
        totals = await db.fetchrow(sql("SELECT sum(nodes), sum(size) FROM SCHEMA.totals"))
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


async def test_conversations_are_added_to_beside_each_other(store: PostgresStore) -> None:
    """An addition that is not committed holds up only those of its own conversation, and what removes responses."""
    for number in range(20):
        await store.put(node("k", f"n{number}"))
    sql = store._connection.sql
    async with store._connection.call() as db, store._connection.call() as watch:
        rows = await db.fetch(sql("SELECT root, SCHEMA.part_of(root) AS part FROM SCHEMA.conversations ORDER BY used"))
        root, part = rows[0]
        held = root.decode()
        other = next(each["root"].decode() for each in rows if each["part"] != part)
        async with db.transaction():
            await db.execute(sql("UPDATE SCHEMA.conversations SET used = used WHERE root = $1"), root)
            await db.execute(sql("SELECT pg_advisory_xact_lock_shared(SCHEMA.lock_key())"))
            await db.execute(sql("UPDATE SCHEMA.totals SET nodes = nodes WHERE part = $1"), part)
            waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(store.put(node("k", "held", held)))]
            await until_locked(watch, 1)
            await store.put(node("k", "next", other))
            await store.put(node("k", "last", "next"))
            waiting.append(asyncio.ensure_future(store.delete("k", "n19")))
            await until_locked(watch, 2)
            assert not any(task.done() for task in waiting)
        assert await asyncio.gather(*waiting) == [None, True]
    assert ids(await store.path("k", "last")) == [other, "next", "last"]
    assert ids(await store.path("k", "held")) == [held, "held"]


async def until_locked(db: Any, number: int) -> None:
    """Wait until so many other calls wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def locked() -> bool:
        return bool(await db.fetchval(query) >= number)

    await until_true(locked, 30)


async def test_limits_hold_after_many_additions_at_a_time(postgres: PostgresServer, schema: str) -> None:
    limits = ThreadLimits(nodes=30)
    async with (
        PostgresStore(postgres.url, limits, schema=schema, timeout=60.0) as first,
        PostgresStore(postgres.url, limits, schema=schema, timeout=60.0) as second,
    ):
        puts = [each.put(node(f"o{n % 3}", f"{i}.{n}")) for n in range(40) for i, each in enumerate((first, second))]
        await asyncio.gather(*puts)
        await first.put(node("o", "last"))
        async with first._connection.call() as db:
            sql = first._connection.sql
            counted = await db.fetchrow(sql("SELECT count(*), sum(size) FROM SCHEMA.responses"))
            totals = await db.fetchrow(sql("SELECT sum(nodes), sum(size) FROM SCHEMA.totals"))
        assert tuple(counted) == tuple(totals)
        assert counted[0] == 30
        assert await second.get("o", "last") is not None


async def test_what_the_first_version_has_stored_stays(postgres: PostgresServer, schema: str) -> None:
    old = SchemaPart("responses", [(TESTS / "support" / "postgres_responses_1.sql").read_text("utf-8")])
    connection = PostgresConnection(postgres.url, old, 30.0, schema=schema)
    await connection.open()
    async with connection.call() as db:
        for number, parent in enumerate([None, b"n0", None]):
            args = (b"k", b"n%d" % number, parent, 7, 10, b"x", 1e6, 100, 10**6, 10**6, 100, 100, 16)
            assert await db.fetchval(connection.sql(statements.PUT), None, *args) == "stored"
    await connection.close()
    async with PostgresStore(postgres.url, ThreadLimits(nodes=3), schema=schema, timeout=30.0) as store:
        assert [each.id for each in await store.path_outline("k", "n1") or ()] == ["n0", "n1"]
        await store.put(node("k", "new", "n2"))
        async with store._connection.call() as db:
            found = await db.fetch(store._connection.sql("SELECT id FROM SCHEMA.responses ORDER BY number"))
            totals = await db.fetchval(store._connection.sql("SELECT sum(nodes) FROM SCHEMA.totals"))
        assert [bytes(name) for (name,) in found] == [b"n2", b"new"], "the conversation that was used first is removed"
        assert totals == 2
