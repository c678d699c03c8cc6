"""Shared routing in an SQLite file, for the processes of one machine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence

from dragoman_server.accounts.store.sqlite_calls import SqliteCalls, transaction
from dragoman_server.proxy.shared_routing.interface import (
    ISSUER_SECONDS,
    ISSUERS_MAX,
    LEASE,
    RUN_SECONDS,
    RUNS_MAX,
    TAKEN_SECONDS,
    Answer,
    RetryClaim,
)
from dragoman_server.proxy.shared_routing.law import WINDOW, Holder, decide, grant_retries
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

_LEASE_MS, _ISSUER_MS = int(LEASE * 1000), ISSUER_SECONDS * 1000
_RUN_MS, _TAKEN_MS = RUN_SECONDS * 1000, TAKEN_SECONDS * 1000
MIGRATIONS = (
    """
    CREATE TABLE processes (process TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE places (
        provider TEXT NOT NULL, process TEXT NOT NULL, held INTEGER NOT NULL, need INTEGER NOT NULL,
        turn INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (provider, process)
    ) WITHOUT ROWID;
    CREATE TABLE turns (last INTEGER NOT NULL);
    INSERT INTO turns VALUES (0);
    CREATE TABLE retries (
        second INTEGER PRIMARY KEY, requests INTEGER NOT NULL, retries INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE issuers (
        owner TEXT NOT NULL, response TEXT NOT NULL, issuer TEXT NOT NULL, used INTEGER NOT NULL,
        PRIMARY KEY (owner, response)
    ) WITHOUT ROWID;
    CREATE INDEX issuers_by_use ON issuers (owner, used);
    CREATE INDEX issuers_by_time ON issuers (used);
    """,
    """
    CREATE TABLE runs (
        owner TEXT NOT NULL, response TEXT NOT NULL, record TEXT NOT NULL, begun INTEGER NOT NULL,
        taken INTEGER NOT NULL, PRIMARY KEY (owner, response)
    ) WITHOUT ROWID;
    CREATE INDEX runs_by_age ON runs (owner, begun);
    CREATE INDEX runs_by_time ON runs (begun);
    """,
)
"""Scripts that bring a file from each version of the schema to the next."""


class SqliteRoutingStore(SqliteCalls):
    """The store in the file at `path`. One call may take `timeout` seconds; `clock` returns Unix seconds."""

    def __init__(self, path: str, *, timeout: float, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        super().__init__(path, MIGRATIONS, timeout)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    @transaction
    def exchange(
        self, db: sqlite3.Connection, process: str, claims: Sequence[PlaceClaim], retries: RetryClaim
    ) -> Answer:
        """Record what a process uses and needs, and grant what is free."""
        now = self._now()
        db.execute("DELETE FROM processes WHERE until <= ?", (now,))
        db.execute("INSERT OR REPLACE INTO processes VALUES (?, ?)", (process, now + _LEASE_MS))
        (processes,) = db.execute("SELECT count(*) FROM processes").fetchone()
        grants = [_claim(db, process, claim, now) for claim in claims]
        return Answer(processes, _count(db, retries, now // 1000), grants)

    @transaction
    def keep_issuer(self, db: sqlite3.Connection, owner: str, response: str, issuer: str) -> None:
        """Keep the issuer of a response."""
        now = self._now()
        db.execute("DELETE FROM issuers WHERE used <= ?", (now - _ISSUER_MS,))
        db.execute("INSERT OR REPLACE INTO issuers VALUES (?, ?, ?, ?)", (owner, response, issuer, now))
        _drop_oldest(db, "issuers", "used", owner, ISSUERS_MAX)

    @transaction
    def find_issuer(self, db: sqlite3.Connection, owner: str, response: str) -> str | None:
        """Return the issuer of a response; None if it is not known."""
        now = self._now()
        query = "UPDATE issuers SET used = ? WHERE owner = ? AND response = ? AND used > ? RETURNING issuer"
        row = db.execute(query, (now, owner, response, now - _ISSUER_MS)).fetchone()
        return row[0] if row is not None else None

    @transaction
    def keep_run(self, db: sqlite3.Connection, owner: str, response: str, record: str) -> None:
        """Keep the record of a running response."""
        now = self._now()
        db.execute("DELETE FROM runs WHERE begun <= ?", (now - _RUN_MS,))
        db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, 0)", (owner, response, record, now))
        _drop_oldest(db, "runs", "begun", owner, RUNS_MAX)

    @transaction
    def take_run(self, db: sqlite3.Connection, owner: str, response: str) -> str | None:
        """Return the record of a running response; None without one, or if it is taken."""
        now = self._now()
        query = (
            "UPDATE runs SET taken = ? WHERE owner = ? AND response = ? AND begun > ? AND taken <= ? RETURNING record"
        )
        row = db.execute(query, (now, owner, response, now - _RUN_MS, now - _TAKEN_MS)).fetchone()
        return row[0] if row is not None else None

    @transaction
    def end_run(self, db: sqlite3.Connection, owner: str, response: str) -> None:
        """Remove the record of a running response."""
        db.execute("DELETE FROM runs WHERE owner = ? AND response = ?", (owner, response))


def _drop_oldest(db: sqlite3.Connection, table: str, time: str, owner: str, most: int) -> None:
    """Keep `most` rows of a client in a table of responses."""
    (number,) = db.execute(f"SELECT count(*) FROM {table} WHERE owner = ?", (owner,)).fetchone()
    if number > most:
        oldest = f"SELECT response FROM {table} WHERE owner = ? ORDER BY {time}, response LIMIT ?"
        rows = db.execute(oldest, (owner, number - most)).fetchall()
        db.executemany(f"DELETE FROM {table} WHERE owner = ? AND response = ?", [(owner, *row) for row in rows])


def _claim(db: sqlite3.Connection, process: str, claim: PlaceClaim, now: int) -> Grant:
    db.execute("DELETE FROM places WHERE provider = ? AND until <= ?", (claim.provider, now))
    query = "SELECT process, held, need, turn FROM places WHERE provider = ?"
    holders = {name: Holder(*row) for name, *row in db.execute(query, (claim.provider,))}
    own = holders.pop(process, None)
    (last,) = db.execute("SELECT last FROM turns").fetchone()
    after, grant = decide(claim, own, list(holders.values()), last + 1)
    if after is not None:
        db.execute("UPDATE turns SET last = max(last, ?)", (after.turn,))
        values = (claim.provider, process, *after, now + _LEASE_MS)
        db.execute("INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?)", values)
    return grant


def _count(db: sqlite3.Connection, claim: RetryClaim, second: int) -> int:
    """Count requests and retries, and return the retries that are granted."""
    if not (claim.requests or claim.made or claim.wanted):
        return 0
    db.execute("DELETE FROM retries WHERE second <= ? OR second > ?", (second - WINDOW, second + WINDOW))
    counted = {at: (requests, made) for at, requests, made in db.execute("SELECT * FROM retries")}
    granted, requests, made = grant_retries(claim, counted, second)
    db.execute(
        "INSERT INTO retries VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
        " SET requests = requests + excluded.requests, retries = retries + excluded.retries",
        (second, requests, made),
    )
    return granted
