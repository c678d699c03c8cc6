"""The thread of an SQLite file: migrations, shared transactions, and a disk that is too slow."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman.threads.store import sqlite_thread
from support.waiting import until


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


async def test_work_that_waits_shares_a_transaction(tmp_path: Path) -> None:
    thread = sqlite_thread.SqliteThread(str(tmp_path / "x.db"), ("CREATE TABLE a (x)",))
    await thread.open()
    statements: list[str] = []
    begun, hold = threading.Event(), threading.Event()

    def first(db: sqlite3.Connection) -> int:
        db.set_trace_callback(statements.append)
        begun.set()
        return hold.wait(30)

    waiting = [asyncio.create_task(thread.run(first))]
    await until(begun.is_set)
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
    tasks = [asyncio.create_task(thread.run(lambda _: hold.wait(30))) for _ in range(10)]
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


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
async def test_a_log_or_its_index_that_was_deleted_is_an_error(ending: str, tmp_path: Path) -> None:
    """Others would not see what is written to a deleted log, and without its index they would not share its locks."""
    path = tmp_path / "x.db"
    thread = sqlite_thread.SqliteThread(str(path), ("CREATE TABLE a (x)",))
    await thread.open()
    await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    other = tmp_path / f"x.db{ending}"
    other.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(StoreError, match=f"its file {ending} was deleted or replaced while it was open"):
            await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    (tmp_path / "away").rename(other)
    await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    await thread.close()


@pytest.mark.parametrize("kind", ["deleted", "replaced"])
async def test_a_file_that_was_deleted_or_replaced_is_an_error(kind: str, tmp_path: Path) -> None:
    """Rows written to it would be lost, though SQLite reports that they were committed."""
    path = tmp_path / "x.db"
    thread = sqlite_thread.SqliteThread(str(path), ("CREATE TABLE a (x)",))
    await thread.open()
    await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    path.rename(tmp_path / "away.db")
    if kind == "replaced":
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StoreError, match="was deleted or replaced while it was open: restart the gateway"):
            await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    (tmp_path / "away.db").rename(path)
    await thread.run(lambda db: db.execute("INSERT INTO a VALUES (1)"))
    await thread.close()
