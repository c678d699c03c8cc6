"""The SQLite store: its file, its schema, and several processes' connections."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman_server.accounts.limits.claim import Claim
from dragoman_server.accounts.store.interface import Lease, StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.sqlite import MIGRATIONS, SqliteAccountStore
from support.claims import claim_on, settlement_on
from support.stores import Clock, opened


def options(folder: Path, seconds: float = 5.0) -> StoreOptions:
    return StoreOptions("sqlite", path=str(folder / "limits.db"), timeout=seconds)


def claim(lease: str) -> Claim:
    buckets = (("requests", 10, 1),)
    return claim_on("alice", lease, 0, buckets, (("daily_tokens", "2026-11-22", 10**6, 7),))


async def test_the_file_and_its_logs_are_the_owners_only(tmp_path: Path) -> None:
    store = SqliteAccountStore(options(tmp_path))
    await store.open()
    await store.admit(claim("1"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in await asyncio.to_thread(lambda: [*tmp_path.iterdir()])}
    await store.close()
    assert modes == {"limits.db": 0o600, "limits.db-wal": 0o600, "limits.db-shm": 0o600}


async def test_counters_survive_closing(tmp_path: Path) -> None:
    for number in range(1, 4):
        store = SqliteAccountStore(options(tmp_path))
        await store.open()
        assert (await store.admit(claim(str(number)))).spent == (7 * number,)
        await store.close()


async def test_counters_that_are_void_go_when_a_key_is_removed(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteAccountStore(options(tmp_path), clock)
    await store.open()
    await store.admit(claim("1"))
    await store.remove_key("bob")
    assert await counters(tmp_path) == [("daily_tokens", "2026-11-22"), ("requests", "")]
    clock.now += 40 * 86400
    await store.remove_key("bob")
    assert await counters(tmp_path) == [("daily_tokens", "2026-11-22"), ("requests", "")]
    clock.now += 60 * 86400 + 1
    await store.remove_key("bob")
    assert await counters(tmp_path) == []
    await store.close()


async def counters(folder: Path) -> list[tuple[str, str]]:
    def read() -> list[tuple[str, str]]:
        with closing(sqlite3.connect(folder / "limits.db")) as db:
            return db.execute("SELECT name, period FROM counters ORDER BY name").fetchall()

    return await asyncio.to_thread(read)


async def test_two_connections_share_a_file(tmp_path: Path) -> None:
    stores = [SqliteAccountStore(options(tmp_path)) for _ in range(2)]
    await asyncio.gather(*(store.open() for store in stores))
    outcomes = await asyncio.gather(*(stores[number % 2].admit(claim(str(number))) for number in range(40)))
    assert sum(not outcome.rejected for outcome in outcomes) == 10
    for store in stores:
        await store.close()


async def test_connections_that_create_a_file_at_the_same_time_wait_for_each_other(tmp_path: Path) -> None:
    for number in range(20):
        directory = tmp_path / str(number)
        directory.mkdir()
        stores = [SqliteAccountStore(options(directory)) for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(store.ping() for store in stores))
        for store in stores:
            await store.close()


async def test_the_schema_has_a_version(tmp_path: Path) -> None:
    store = SqliteAccountStore(options(tmp_path))
    await store.open()
    await store.close()
    with sqlite3.connect(tmp_path / "limits.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="schema version 99, of a later Dragoman"):
        await SqliteAccountStore(options(tmp_path)).open()


async def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"/missing does not exist: create it$"):
        await SqliteAccountStore(StoreOptions("sqlite", path=str(tmp_path / "missing" / "x.db"))).open()


async def test_a_file_locked_by_another_process_is_an_error_in_time(tmp_path: Path) -> None:
    store = SqliteAccountStore(options(tmp_path, 0.1))
    await store.open()
    blocker = sqlite3.connect(tmp_path / "limits.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"did not answer within 0\.1 s"):
        await store.admit(claim("1"))
    blocker.execute("ROLLBACK")
    blocker.close()
    # The claim that was given up is not granted later.
    async with asyncio.timeout(30):
        outcome = None
        while outcome is None:
            try:
                outcome = await store.admit(claim("2"))
            except StoreError:
                continue
    assert (outcome.open, outcome.spent) == (1, (7,))
    await store.close()


@pytest.mark.parametrize("days", [-40, -1, 1, 40])
async def test_a_process_whose_clock_is_wrong_leaves_the_limits_of_all_others(tmp_path: Path, days: int) -> None:
    right, wrong = Clock(), Clock()
    wrong.now += days * 86_400
    budgets = (("daily_tokens", "2026-11-22", 90, 20, 30), ("monthly_tokens", "2026-11", 90, 20, 30))
    settled = (("daily_tokens", "2026-11-22", 90, 5, 30), ("monthly_tokens", "2026-11", 90, 5, 30))
    async with opened("sqlite", right, tmp_path) as store:
        other = SqliteAccountStore(StoreOptions(path=store._path), wrong)  # type: ignore[attr-defined]
        await other.open()
        assert not (await store.admit(claim_on("alice", "1", 2, (), budgets))).rejected
        await store.cool("provider", 30)
        # It asks, renews what is open there, ends another request, has a pause, and revokes a key.
        await other.admit(claim_on("alice", "2", 2, (("requests", 5, 1),), budgets))
        await other.renew([Lease("alice", "2")])
        await other.settle([settlement_on("alice", "3", False, (), settled)])
        await other.cool("other", 30)
        await other.remove_key("unknown")
        # The budgets, the reservations, the open requests and the pauses of the others are as they were.
        outcome = await store.admit(claim_on("alice", "4", 3, (("requests", 5, 1),), budgets))
        assert outcome.rejected == ("daily_tokens", "monthly_tokens")
        assert (outcome.spent[0], outcome.held[0]) == (20, 30)
        assert await store.cooldowns() == {"provider": 30}
        await store.settle([settlement_on("alice", "1", True, (), settled)])
        sums = {each.name: each.amount for each in await store.spent("alice")}
        assert sums["daily_tokens"] == 25
        await other.close()
