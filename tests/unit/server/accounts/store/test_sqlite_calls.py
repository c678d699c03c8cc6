"""Calls of a file: their result, their limit of time, and a file that is not open."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman_server.accounts.store.sqlite_calls import SqliteCalls

MIGRATIONS = ("CREATE TABLE numbers (number INTEGER);",)


def add(db: sqlite3.Connection) -> int:
    db.execute("INSERT INTO numbers VALUES (1)")
    return int(db.execute("SELECT count(*) FROM numbers").fetchone()[0])


async def test_what_is_written_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    file = SqliteCalls(str(tmp_path / "x.db"), MIGRATIONS, 30.0)
    for count in (1, 2):
        await file.open()
        assert await file.run(add) == count
        await file.close()


async def test_a_file_that_is_not_open_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not open"):
        await SqliteCalls(str(tmp_path / "x.db"), MIGRATIONS, 30.0).run(add)


async def test_a_call_has_a_limit_of_time(tmp_path: Path) -> None:
    path, go = str(tmp_path / "x.db"), threading.Event()
    file = SqliteCalls(path, MIGRATIONS, 0.05)
    await file.open()
    with pytest.raises(StoreError, match=r"x\.db did not answer within 0\.05 s"):
        await file.run(lambda _: go.wait(30.0))
    go.set()
    await file.close()
