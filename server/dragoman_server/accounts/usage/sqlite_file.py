"""Rows of usage in an SQLite file, which several processes may write to."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields

from dragoman.wire import json_dumps
from dragoman_server.accounts.usage.row import COUNTS, PROVISIONAL, UsageRow, cost_units
from dragoman_server.accounts.usage.sink import RowFile

VERSION = 4
"""2 added `cache_write_1h`, 3 `service_tier`, `stated_cost` and `searches`, 4 `speed`, `tag` and `other_models`."""
_DAY = 86_400
_TIMEOUT = 10.0
"""Longest wait for another process's transaction, in seconds."""
COLUMNS = tuple(spec.name for spec in fields(UsageRow))
"""`cost` is in billionths; `estimated` has the names of the counts, separated by spaces; `other_models` is JSON, NULL
for none."""
_INTEGERS = ("status", "stream", "attempts", "partial", "cost", "searches", *(name for name, _ in COUNTS))
_REALS = ("duration", "first_event", "stated_cost")


def _type_of(column: str) -> str:
    return "INTEGER" if column in _INTEGERS else "REAL" if column in _REALS else "TEXT"


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS usage ("
    + ", ".join(f"{name} {_type_of(name)}" + (" PRIMARY KEY" if name == "id" else "") for name in COLUMNS)
    + ") WITHOUT ROWID"
)
_ENDS = ", ".join(f"'{end}'" for end in PROVISIONAL)
# Ids are unique, so a batch that was written in part is not written twice.
_INSERT = (
    f"INSERT INTO usage ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (id)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS)}"
    f" WHERE usage.ended IN ({_ENDS}) AND excluded.ended NOT IN ({_ENDS})"
)


class SqliteFile(RowFile):
    """The file at `path`, which keeps rows for `keep_days`; 0 is for ever. `clock` returns Unix seconds."""

    def __init__(self, path: str, keep_days: int, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._keep_days = keep_days
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._cleaned = 0.0

    def open(self) -> None:
        """Open the file. Other users may not read it, if it is new. Raises OSError or ValueError."""
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with _as_value_error(self._path):
            db = sqlite3.connect(self._path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
            try:
                self._migrate(db)
            except BaseException:
                db.close()
                raise
        self._db = db

    def _migrate(self, db: sqlite3.Connection) -> None:
        """Bring the file to the current version of the schema. Raises ValueError if it has a later one."""
        # No write-ahead log: rows come in batches, and readers of the file need no other files.
        db.execute("BEGIN IMMEDIATE")  # before the version is read: several workers open the file at once
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise ValueError(f"{self._path} has schema version {version}, of a later Dragoman")
        db.execute(_SCHEMA)
        known = {column for _, column, *_ in db.execute("PRAGMA table_info(usage)")}
        for column in COLUMNS:
            if column not in known:  # the file is of an earlier version
                db.execute(f"ALTER TABLE usage ADD COLUMN {column} {_type_of(column)}")
        db.execute("CREATE INDEX IF NOT EXISTS usage_by_time ON usage (time)")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Insert rows in one transaction, without those whose end is in the file. Raises ValueError."""
        db = self._db
        assert db is not None
        with _as_value_error(self._path):
            try:
                db.execute("BEGIN IMMEDIATE")
                db.executemany(_INSERT, [_values(row) for row in rows])
                self._clean(db)
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _clean(self, db: sqlite3.Connection) -> None:
        """Delete the rows that are too old, once a day."""
        now = self._clock()
        if self._keep_days and now - self._cleaned >= _DAY:
            self._cleaned = now
            oldest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now - self._keep_days * _DAY))
            db.execute("DELETE FROM usage WHERE time < ?", (oldest,))


@contextmanager
def _as_value_error(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ValueError(f"{path}: {error}") from None


def _values(row: UsageRow) -> tuple[object, ...]:
    others = json_dumps(row.other_models).decode() if row.other_models else None
    changed = {"estimated": " ".join(row.estimated), "cost": cost_units(row.cost), "other_models": others}
    values = {**vars(row), **changed}
    return tuple(values.values())
