"""Keys in PostgreSQL: the notice of each change, and a database that lost some."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store import postgres as postgres_keys
from dragoman_server.accounts.store.interface import StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.postgres import PostgresKeyStore
from support.postgres_server import PostgresServer, postgres_server

_NUMBERS = itertools.count()


def record(name: str = "alice") -> KeyRecord:
    return KeyRecord(name, KeyHash.of(new_key()), ("m*",), KeyLimits(5, daily_cost=1.5), 2e9, True)


def options(server: PostgresServer, schema: str | None = None) -> StoreOptions:
    return StoreOptions("postgresql", url=server.url, prefix=schema or f"keys-{next(_NUMBERS)}", timeout=10.0)


@pytest.fixture
async def store(postgres: PostgresServer) -> AsyncIterator[PostgresKeyStore]:
    made = PostgresKeyStore(options(postgres))
    await made.open()
    yield made
    await made.close()


async def test_versions_are_in_order_while_many_hosts_change_keys(postgres: PostgresServer) -> None:
    common = options(postgres)
    stores = [PostgresKeyStore(common) for _ in range(4)]
    for each in stores:
        await each.open()
    first = await stores[0].keys()
    assert first is not None
    await asyncio.gather(*(stores[number % 4].put_key(record(f"k{number}")) for number in range(20)))
    found = await stores[0].keys(first.version)
    assert found is not None
    assert (len(found.records), found.whole) == (20, True)
    for each in stores:
        await each.close()


async def test_a_database_that_was_restored_to_an_earlier_state_is_noticed(
    store: PostgresKeyStore, postgres: PostgresServer
) -> None:
    schema = store._schema
    await store.put_key(record())
    await store.put_key(record("bob"))
    known = await store.keys()
    assert known is not None
    await postgres.run(f'DELETE FROM "{schema}".keys', f'DELETE FROM "{schema}".key_versions WHERE version > 1')
    earlier = await store.keys(known.version)
    assert earlier is not None
    assert not earlier.whole
    await store.put_key(record("carol"))
    later = await store.keys(known.version)
    assert later is not None
    assert not later.whole
    await postgres.run(f'DROP SCHEMA "{schema}" CASCADE')
    with pytest.raises(StoreError):
        await store.keys(known.version)
    empty = await store.keys(known.version)
    assert empty is not None
    assert (list(empty.records), empty.whole) == ([], False)


async def test_versions_that_were_deleted_are_an_error_with_advice(
    store: PostgresKeyStore, postgres: PostgresServer
) -> None:
    await store.put_key(record())
    known = await store.keys()
    assert known is not None
    await postgres.run(f'TRUNCATE "{store._schema}".key_versions')
    for version in (None, known.version):
        with pytest.raises(StoreError, match=r"no version of the keys .*drop the schema"):
            await store.keys(version)
    with pytest.raises(StoreError, match="drop the schema"):
        await store.put_key(record("bob"))


async def test_each_change_is_noticed_at_once_and_one_by_sql(store: PostgresKeyStore, postgres: PostgresServer) -> None:
    other = PostgresKeyStore(options(postgres))
    await other.open()
    await store.keys()
    seen: asyncio.Queue[None] = asyncio.Queue()
    following = asyncio.create_task(store.follow(lambda: seen.put_nowait(None)))
    alice = record()
    async with asyncio.timeout(30):
        await seen.get()  # it listens
        await other.put_key(record("of another schema"))
        await store.put_key(alice)
        await seen.get()
        await store.remove_key(alice.id)
        await seen.get()
        await postgres.run(f'DELETE FROM "{store._schema}".keys')
        await seen.get()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await other.close()


async def test_a_lost_connection_ends_the_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_keys, "ALIVE", 0.02)
    with postgres_server() as server:
        store = PostgresKeyStore(replace(options(server), timeout=2.0))
        await store.open()
        listens = asyncio.Event()
        following = asyncio.create_task(store.follow(listens.set))
        await asyncio.wait_for(listens.wait(), 30)
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreError):
            await asyncio.wait_for(following, 30)
        await asyncio.to_thread(server.start)
        listens.clear()
        following = asyncio.create_task(store.follow(listens.set))
        await asyncio.wait_for(listens.wait(), 30)
        server.freeze()  # nothing closes the connection
        with pytest.raises(StoreError, match="did not answer"):
            await asyncio.wait_for(following, 30)
        await store.close()


async def test_what_only_reads_creates_nothing(postgres: PostgresServer) -> None:
    store = PostgresKeyStore(options(postgres, "unmade"), read_only=True)
    await store.open()
    with pytest.raises(StoreError, match="the part keys of the schema unmade is not there yet"):
        await store.keys()
    await store.close()
    assert (await postgres.run("SELECT to_regnamespace('unmade')"))[0][0] is None
