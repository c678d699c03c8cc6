"""The SQLite store: its file, its schema, several processes' connections, and a disk that is too slow."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from dragoman_server.accounts.limits.claim import BucketClaim, BudgetClaim, Claim
from dragoman_server.accounts.store import sqlite_thread
from dragoman_server.accounts.store.interface import StoreError
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.sqlite import MIGRATIONS, SqliteStore


def options(folder: Path, seconds: float = 5.0) -> StoreOptions:
    return StoreOptions("sqlite", path=str(folder / "limits.db"), timeout=seconds)


def claim(lease: str) -> Claim:
    buckets = (BucketClaim("requests", 10, 1),)
    return Claim("alice", lease, 0, buckets, (BudgetClaim("daily_tokens", "2026-11-22", 10**6, 7),))


async def test_the_file_and_its_logs_are_the_owners_only(tmp_path: Path) -> None:
    store = SqliteStore(options(tmp_path))
    await store.open()
    await store.admit(claim("1"))
    modes = {path.name: path.stat().st_mode & 0o777 for path in await asyncio.to_thread(lambda: [*tmp_path.iterdir()])}
    await store.close()
    assert modes == {"limits.db": 0o600, "limits.db-wal": 0o600, "limits.db-shm": 0o600}


async def test_counters_survive_closing(tmp_path: Path) -> None:
    for number in range(1, 4):
        store = SqliteStore(options(tmp_path))
        await store.open()
        assert (await store.admit(claim(str(number)))).spent == (7 * number,)
        await store.close()


async def test_two_connections_share_a_file(tmp_path: Path) -> None:
    stores = [SqliteStore(options(tmp_path)) for _ in range(2)]
    await asyncio.gather(*(store.open() for store in stores))
    outcomes = await asyncio.gather(*(stores[number % 2].admit(claim(str(number))) for number in range(40)))
    assert sum(not outcome.rejected for outcome in outcomes) == 10
    for store in stores:
        await store.close()


async def test_the_schema_has_a_version(tmp_path: Path) -> None:
    store = SqliteStore(options(tmp_path))
    await store.open()
    await store.close()
    with sqlite3.connect(tmp_path / "limits.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="schema version 99, of a later Dragoman"):
        await SqliteStore(options(tmp_path)).open()


async def test_a_migration_brings_an_older_file_to_the_current_version(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    first = sqlite_thread.SqliteThread(path, ("CREATE TABLE a (x); INSERT INTO a VALUES (1)",))
    await first.open()
    await first.close()
    second = sqlite_thread.SqliteThread(path, ("SELECT 1/0 FROM missing", "ALTER TABLE a ADD COLUMN y"))
    await second.open()
    assert await second.run(lambda db: db.execute("SELECT x, y FROM a").fetchall()) == [(1, None)]
    await second.close()


async def test_a_failed_migration_changes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    with pytest.raises(StoreError, match="cannot be used"):
        await sqlite_thread.SqliteThread(path, ("CREATE TABLE a (x); CREATE TABLE a (x)",)).open()
    thread = sqlite_thread.SqliteThread(path, ("CREATE TABLE a (x)",))
    await thread.open()
    await thread.close()


async def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        await SqliteStore(StoreOptions("sqlite", path=str(tmp_path / "missing" / "x.db"))).open()


async def test_a_file_locked_by_another_process_is_an_error_in_time(tmp_path: Path) -> None:
    store = SqliteStore(options(tmp_path, 0.1))
    await store.open()
    blocker = sqlite3.connect(tmp_path / "limits.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"did not answer within 0\.1 s"):
        await store.admit(claim("1"))
    blocker.execute("ROLLBACK")
    blocker.close()
    # The claim that was given up is not granted later.
    async with asyncio.timeout(10):
        outcome = None
        while outcome is None:
            try:
                outcome = await store.admit(claim("2"))
            except StoreError:
                continue
    assert (outcome.open, outcome.spent) == (1, (7,))
    await store.close()


async def test_work_that_waits_shares_a_transaction(tmp_path: Path) -> None:
    thread = sqlite_thread.SqliteThread(str(tmp_path / "x.db"), ("CREATE TABLE a (x)",))
    await thread.open()
    statements: list[str] = []
    hold = threading.Event()

    def first(db: sqlite3.Connection) -> int:
        db.set_trace_callback(statements.append)
        return hold.wait(10)

    waiting = [asyncio.create_task(thread.run(first))]
    await asyncio.sleep(0.05)
    waiting += [
        asyncio.create_task(thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)").rowcount)) for _ in range(50)
    ]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(*waiting)
    await thread.close()
    assert statements.count("COMMIT") == 2
    assert statements.count("INSERT INTO a VALUES (1)") == 50


async def test_a_disk_that_is_too_slow_rejects_instead_of_queueing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_thread, "PENDING_MAX", 4)
    thread = sqlite_thread.SqliteThread(str(tmp_path / "x.db"), ("CREATE TABLE a (x)",))
    await thread.open()
    hold = threading.Event()
    tasks = [asyncio.create_task(thread.run(lambda _: hold.wait(10))) for _ in range(10)]
    await asyncio.sleep(0.05)
    hold.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results].count(StoreError) >= 5
    await thread.close()


async def test_an_error_in_a_transaction_undoes_all_of_it(tmp_path: Path) -> None:
    thread = sqlite_thread.SqliteThread(str(tmp_path / "x.db"), ("CREATE TABLE a (x)",))
    await thread.open()

    def wrong(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO a VALUES (1)")
        db.execute("INSERT INTO missing VALUES (1)")

    with pytest.raises(StoreError, match="no such table: missing"):
        await thread.run(wrong)
    assert await thread.run(lambda db: db.execute("SELECT * FROM a").fetchall()) == []
    await thread.close()
