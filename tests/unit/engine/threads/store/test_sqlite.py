"""The store in an SQLite file: what survives, who may read it, and files that cannot be used."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from dragoman.threads import SqliteStore, StoreError, ThreadLimits
from dragoman.threads.store.sqlite import MIGRATIONS
from support.stores import Clock
from support.thread_stores import ids, node


async def test_responses_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    store = SqliteStore(path)
    await store.open()
    await store.put(node("k", "a"))
    await store.put(node("k", "b", "a"))
    await store.close()
    again = SqliteStore(path)
    await again.open()
    assert ids(await again.path("k", "b")) == ["a", "b"]
    await again.close()


async def test_the_files_are_for_their_user_only(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "t.db"))
    await store.open()
    await store.put(node("k", "a"))
    assert {oct(os.stat(entry).st_mode & 0o777) for entry in os.scandir(tmp_path)} == {"0o600"}
    await store.close()


async def test_what_is_deleted_is_not_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    store = SqliteStore(str(path))
    await store.open()
    await store.put(node("k", "a", text="a very secret text"))
    assert await store.delete("k", "a")
    await store.close()  # writes the log into the file
    assert b"very secret" not in path.read_bytes()


async def test_two_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    one, two = SqliteStore(path), SqliteStore(path)
    await one.open()
    await two.open()
    await asyncio.gather(
        *(store.put(node("k", f"{name}{i}")) for i in range(20) for name, store in (("a", one), ("b", two)))
    )
    assert await one.get("k", "b19") is not None
    assert await two.get("k", "a19") is not None
    await one.close()
    await two.close()


async def test_counts_stay_exact(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    clock = Clock()
    store = SqliteStore(path, ThreadLimits(nodes=3), clock=clock)
    await store.open()
    for number in range(5):
        await store.put(node("k", f"a{number}"))
    await store.put(node("j", "b"))
    assert await store.delete("k", "a4")
    clock.now += 40 * 86_400
    await store.expire()
    await store.close()
    db = sqlite3.connect(path)
    assert db.execute("SELECT nodes, size FROM totals").fetchone() == (0, 0)
    assert [db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("nodes", "trees", "owners")] == [
        0
    ] * 3
    db.close()


async def test_a_file_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(StoreError, match="of a later Dragoman"):
        await SqliteStore(path).open()


async def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(b"this is not a database, but long enough to be read as the header of one" * 20)
    with pytest.raises(StoreError, match="not a database: move it away"):
        await SqliteStore(str(path)).open()


async def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"/missing does not exist: create it$"):
        await SqliteStore(str(tmp_path / "missing" / "t.db")).open()


async def test_a_damaged_file_fails_each_call_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    store = SqliteStore(str(path))
    await store.open()
    for number in range(50):
        await store.put(node("k", f"a{number}", text="x" * 3000))
    await store.close()
    with path.open("r+b") as file:  # every page after the first
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    damaged = SqliteStore(str(path))
    await damaged.open()
    with pytest.raises(StoreError, match="damaged: move it away"):
        await damaged.get("k", "a1")
    with pytest.raises(StoreError, match="damaged: move it away"):
        await damaged.put(node("k", "new"))
    await damaged.close()


async def test_a_full_disk_fails_a_write_and_no_read(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "t.db"))
    await store.open()
    await store.put(node("k", "a"))
    writer = store._writer
    assert writer is not None
    await writer.run(lambda db: db.execute("PRAGMA max_page_count = 1"))  # SQLite's own way to a full disk
    with pytest.raises(StoreError, match="the disk is full: make room"):
        await store.put(node("k", "b", text="x" * 1_000_000))
    assert await store.get("k", "a") == node("k", "a")
    assert await store.get("k", "b") is None
    await writer.run(lambda db: db.execute("PRAGMA max_page_count = 1000000"))
    await store.put(node("k", "b"))
    await store.close()


async def test_a_locked_file_fails_within_the_timeout(tmp_path: Path) -> None:
    path = str(tmp_path / "t.db")
    store = SqliteStore(path, timeout=0.2)
    await store.open()
    await store.put(node("k", "a"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"did not answer within 0\.2 s"):
        await store.put(node("k", "b"))
    assert await store.get("k", "a") is not None  # reads do not wait for writes
    other.execute("ROLLBACK")
    other.close()
    await store.close()


async def test_a_store_that_is_not_open_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not open"):
        await SqliteStore(str(tmp_path / "t.db")).get("k", "a")
