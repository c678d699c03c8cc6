"""Rows in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.sqlite_file import COLUMNS, SqliteFile


def read(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_rows_are_kept_and_only_the_owner_may_read(tmp_path: Path, booked: Callable[..., Any]) -> None:
    path = tmp_path / "u.db"
    file = SqliteFile(str(path), 0)
    file.open()
    file.write([booked(1), booked(2, estimated=("input_total", "output_total"))])
    file.close()
    assert read(path, "SELECT id, key, input, output, cost, estimated FROM usage ORDER BY id") == [
        ("req_1", "team", 100, 7, 123_000, ""),
        ("req_2", "team", 100, 7, 123_000, "input output"),
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_exchange_is_in_the_file_once(tmp_path: Path, booked: Callable[..., Any]) -> None:
    for _ in range(2):
        file = SqliteFile(str(tmp_path / "u.db"), 0)
        file.open()
        file.write([booked(1)])
        file.close()
    assert read(tmp_path / "u.db", "SELECT count(*) FROM usage") == [(1,)]


def write_first_version(path: Path) -> None:
    later = ("cache_write_1h", "service_tier", "stated_cost", "searches", "speed", "tag", "other_models")
    columns = ", ".join(name for name in COLUMNS if name not in later)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE usage ({columns.replace('id', 'id TEXT PRIMARY KEY', 1)}) WITHOUT ROWID")
        db.execute("INSERT INTO usage (time, id, cache_write) VALUES ('2026-11-20T09:00:00Z', 'req_0', 5)")
        db.execute("PRAGMA user_version = 1")
        db.commit()


def test_a_file_of_the_first_version_gets_the_columns_of_later_ones(tmp_path: Path, booked: Callable[..., Any]) -> None:
    path = tmp_path / "u.db"
    write_first_version(path)
    for _ in range(2):  # the second time it is of the present version
        file = SqliteFile(str(path), 0)
        file.open()
        file.write([booked(1, usage=Usage(input_total=100, cache_write=60, cache_write_1h=20), tag="red")])
        file.close()
    rows = read(path, "SELECT id, cache_write, cache_write_1h, tag, other_models FROM usage ORDER BY id")
    assert rows == [("req_0", 5, None, None, None), ("req_1", 60, 20, "red", None)]


def test_workers_that_open_a_file_of_the_first_version_at_once(tmp_path: Path) -> None:
    ready = Barrier(4)

    def opened(path: Path) -> None:
        ready.wait(10)
        file = SqliteFile(str(path), 0)
        file.open()
        file.close()

    with ThreadPoolExecutor(4) as workers:
        for number in range(10):
            path = tmp_path / f"{number}.db"
            write_first_version(path)
            assert [*workers.map(opened, [path] * 4)] == [None] * 4
            assert read(path, "SELECT cache_write_1h FROM usage") == [(None,)]


def test_old_rows_are_deleted_once_a_day(tmp_path: Path, booked: Callable[..., Any]) -> None:
    now = [1_790_000_000.0]
    file = SqliteFile(str(tmp_path / "u.db"), 30, lambda: now[0])
    file.open()
    file.write([booked(1)])
    now[0] += 31 * 86_400
    file.write([booked(2, created=int(now[0]))])
    file.close()
    assert read(tmp_path / "u.db", "SELECT id FROM usage") == [("req_2",)]


def test_a_file_of_a_later_version_is_rejected(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "u.db")) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(ValueError, match="schema version 9"):
        SqliteFile(str(tmp_path / "u.db"), 0).open()


def test_a_file_that_is_no_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "u.db").write_text("hello " * 1000)
    with pytest.raises(ValueError, match="not a database"):
        SqliteFile(str(tmp_path / "u.db"), 0).open()


def test_a_batch_is_written_as_a_whole(tmp_path: Path, booked: Callable[..., Any]) -> None:
    file = SqliteFile(str(tmp_path / "u.db"), 0)
    file.open()
    with pytest.raises(ValueError, match=r"u\.db"):
        file.write([booked(1), booked(2, status=object())])
    file.close()
    assert read(tmp_path / "u.db", "SELECT count(*) FROM usage") == [(0,)]


def test_rows_that_the_file_has_are_not_written_again(tmp_path: Path, booked: Callable[..., Any]) -> None:
    file = SqliteFile(str(tmp_path / "u"), 0)
    file.open()
    file.write([booked(1, ended="completed")])
    file.write_missing([booked(1, ended="failed"), booked(2, ended="failed")])
    file.close()
    with closing(sqlite3.connect(tmp_path / "u")) as db:
        assert db.execute("SELECT id, ended FROM usage").fetchall() == [("req_1", "completed"), ("req_2", "failed")]
