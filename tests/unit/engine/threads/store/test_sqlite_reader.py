"""The thread that reads an SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman.threads.store import sqlite_reader
from dragoman.threads.store.sqlite_reader import SqliteReader


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = str(tmp_path / "x #1.db")  # a name with characters that have a meaning in a URI
    db = sqlite3.connect(name)
    db.executescript("CREATE TABLE a (x); INSERT INTO a VALUES (1)")
    db.close()
    return name


async def test_it_reads_and_never_writes(path: str) -> None:
    reader = SqliteReader(path)
    assert await reader.run(lambda db: db.execute("SELECT x FROM a").fetchall()) == [(1,)]
    with pytest.raises(StoreError, match="readonly"):
        await reader.run(lambda db: db.execute("DELETE FROM a"))
    await reader.close()


async def test_a_file_that_is_missing(tmp_path: Path) -> None:
    reader = SqliteReader(str(tmp_path / "missing.db"))
    with pytest.raises(StoreError, match="unable to open"):
        await reader.run(lambda db: db.execute("SELECT 1"))
    await reader.close()


async def test_a_disk_that_is_too_slow_rejects_instead_of_queueing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_reader, "PENDING_MAX", 2)
    reader = SqliteReader(path)
    hold = threading.Event()
    waiting = [asyncio.create_task(reader.run(lambda _: hold.wait(10))) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="too slow: 2 reads wait"):
        await reader.run(lambda db: db.execute("SELECT 1"))
    hold.set()
    assert await asyncio.gather(*waiting) == [True, True]
    await reader.close()
