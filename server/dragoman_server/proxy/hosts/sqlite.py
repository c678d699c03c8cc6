"""The store of hosts in an SQLite file, for the processes of one machine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from dragoman_server.accounts.store.sqlite_calls import SqliteCalls, transaction
from dragoman_server.proxy.hosts.interface import (
    LEASE,
    LIST_MAX,
    LOST_KEPT,
    PROCESSES_MAX,
    RECEIPT_BYTES,
    RECEIPTS_MAX,
    ROWS_MAX,
    WATCH,
    Batch,
    FoundReceipt,
    ProcessState,
    Reading,
    Wanted,
)

MIGRATIONS = (
    """
    CREATE TABLE receipts (
        id TEXT PRIMARY KEY, owner TEXT NOT NULL, at REAL NOT NULL, size INTEGER NOT NULL, summary BLOB NOT NULL,
        view BLOB NOT NULL
    );
    CREATE INDEX receipts_by_time ON receipts (at, size);
    CREATE INDEX receipts_by_owner ON receipts (owner, at);
    CREATE TABLE rows (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, data BLOB NOT NULL);
    CREATE TABLE processes (
        name TEXT PRIMARY KEY, seen REAL NOT NULL, state BLOB NOT NULL, open_rows BLOB NOT NULL DEFAULT x'',
        open_until REAL NOT NULL DEFAULT 0
    );
    CREATE TABLE asked (process TEXT NOT NULL, id TEXT NOT NULL, until REAL NOT NULL, PRIMARY KEY (process, id));
    CREATE TABLE watch (only INTEGER PRIMARY KEY, until REAL NOT NULL);
    """,
)
"""Scripts that bring a file from each version of the schema to the next."""
SETTINGS = ("synchronous = OFF",)
"""No commit waits for the disk: all of it is void after some minutes."""


class SqliteHostStore(SqliteCalls):
    """The store in the file at `path`. Receipts are kept for `kept` seconds. One call may take `timeout` seconds.

    `most` and `most_bytes` bound the receipts. `clock` returns Unix seconds.
    """

    def __init__(
        self,
        path: str,
        *,
        kept: float,
        timeout: float = 5.0,
        most: int = RECEIPTS_MAX,
        most_bytes: int = RECEIPT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kept = kept
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        super().__init__(path, MIGRATIONS, timeout, SETTINGS)

    @transaction
    def write(self, db: sqlite3.Connection, batch: Batch) -> Wanted:
        """Write what a process has."""
        now = self._clock()
        if batch.receipts:
            self._write_receipts(db, batch, now)
        if batch.rows:
            db.executemany("INSERT INTO rows (at, data) VALUES (?, ?)", [(now, row) for row in batch.rows])
            db.execute("DELETE FROM rows WHERE number <= (SELECT max(number) FROM rows) - ?", (ROWS_MAX,))
            db.execute("DELETE FROM rows WHERE at <= ?", (now - self._kept,))
        _write_state(db, batch, now)
        asked = [name for (name,) in db.execute("SELECT id FROM asked WHERE process = ?", (batch.process,))]
        if asked:
            db.execute("DELETE FROM asked WHERE process = ?", (batch.process,))
        watched = db.execute("SELECT 1 FROM watch WHERE until > ?", (now,)).fetchone()
        return Wanted(watched is not None, asked)

    def _write_receipts(self, db: sqlite3.Connection, batch: Batch, now: float) -> None:
        rows = [
            (each.id, each.owner, now, len(each.summary) + len(each.view), each.summary, each.view)
            for each in batch.receipts
        ]
        db.executemany("INSERT OR REPLACE INTO receipts VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.execute("DELETE FROM receipts WHERE at <= ?", (now - self._kept,))
        count, size = db.execute("SELECT count(*), coalesce(sum(size), 0) FROM receipts").fetchone()
        while count > self._most or size > self._most_bytes:
            name, bytes_of_it = db.execute("SELECT id, size FROM receipts ORDER BY at, rowid LIMIT 1").fetchone()
            db.execute("DELETE FROM receipts WHERE id = ?", (name,))
            count, size = count - 1, size - bytes_of_it

    @transaction
    def leave(self, db: sqlite3.Connection, process: str) -> None:
        """Remove a process."""
        db.execute("DELETE FROM processes WHERE name = ?", (process,))

    @transaction
    def read(self, db: sqlite3.Connection, position: str = "", most: int = 0, *, watch: bool = False) -> Reading:
        """Return rows and all processes."""
        now = self._clock()
        if watch:
            db.execute("INSERT OR REPLACE INTO watch VALUES (1, ?)", (now + WATCH,))
        rows = []
        if most and position:
            query = "SELECT number, data FROM rows WHERE number > ? ORDER BY number LIMIT ?"
            rows = db.execute(query, (int(position), most)).fetchall()
        elif most:
            newest = db.execute("SELECT number, data FROM rows ORDER BY number DESC LIMIT ?", (most,))
            rows = newest.fetchall()[::-1]
        open_rows = "CASE WHEN :watch AND open_until > :now AND seen > :lease THEN open_rows ELSE x'' END"
        query = f"SELECT name, :now - seen, state, {open_rows} FROM processes ORDER BY seen"
        found = db.execute(query, {"watch": watch, "now": now, "lease": now - LEASE})
        states = [ProcessState(*row) for row in found]
        return Reading(str(rows[-1][0]) if rows else position, [data for _, data in rows], states)

    @transaction
    def receipt(self, db: sqlite3.Connection, request_id: str) -> FoundReceipt | None:
        """Return a receipt, or None if it is not there."""
        query = "SELECT owner, view FROM receipts WHERE id = ? AND at > ?"
        row = db.execute(query, (request_id, self._since())).fetchone()
        return FoundReceipt(*row) if row is not None else None

    def _since(self) -> float:
        return self._clock() - self._kept

    @transaction
    def receipts(self, db: sqlite3.Connection, owner: str, most: int) -> list[bytes]:
        """Return the summaries of the last receipts of an owner."""
        query = "SELECT summary FROM receipts WHERE owner = ? AND at > ? ORDER BY at DESC, rowid DESC LIMIT ?"
        values = (owner, self._since(), min(most, LIST_MAX))
        return [data for (data,) in db.execute(query, values)]

    @transaction
    def ask(self, db: sqlite3.Connection, process: str, request_id: str) -> None:
        """Let a process write the receipt of a request that is still open."""
        now = self._clock()
        db.execute("DELETE FROM asked WHERE until <= ?", (now,))
        db.execute("INSERT OR REPLACE INTO asked VALUES (?, ?, ?)", (process, request_id, now + WATCH))


def _write_state(db: sqlite3.Connection, batch: Batch, now: float) -> None:
    """Write the state of a process, and drop those that were lost long ago."""
    query = (
        "INSERT INTO processes (name, seen, state) VALUES (?, ?, ?)"
        " ON CONFLICT DO UPDATE SET seen = excluded.seen, state = excluded.state"
    )
    db.execute(query, (batch.process, now, batch.state))
    if batch.open_rows is not None:
        query = "UPDATE processes SET open_rows = ?, open_until = ? WHERE name = ?"
        db.execute(query, (batch.open_rows, now + WATCH, batch.process))
    db.execute("DELETE FROM processes WHERE seen <= ?", (now - LOST_KEPT,))
    query = "DELETE FROM processes WHERE name IN (SELECT name FROM processes ORDER BY seen DESC LIMIT -1 OFFSET ?)"
    db.execute(query, (PROCESSES_MAX,))
