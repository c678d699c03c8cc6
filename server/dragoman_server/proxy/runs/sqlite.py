"""The runs in an SQLite file, for the processes of one machine. A change survives the end of its process."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence

from dragoman_server.accounts.store.sqlite_calls import SqliteCalls, transaction
from dragoman_server.proxy.runs.interface import (
    LEASE,
    LOST,
    READ_BYTES,
    READ_ENTRIES,
    Change,
    Entry,
    LostRun,
    Marks,
    NewRun,
    Position,
    Rest,
    Run,
    RunId,
)

MIGRATIONS = (
    """
    CREATE TABLE runs (
        owner TEXT NOT NULL, id TEXT NOT NULL, host TEXT NOT NULL, running INTEGER NOT NULL DEFAULT 1,
        counts INTEGER NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0, reader TEXT NOT NULL DEFAULT '',
        reader_until REAL NOT NULL DEFAULT 0, first INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0,
        lease REAL NOT NULL, expires REAL NOT NULL, head BLOB NOT NULL, state BLOB NOT NULL,
        request BLOB NOT NULL, PRIMARY KEY (owner, id)
    );
    CREATE INDEX runs_by_lease ON runs (lease) WHERE running;
    CREATE INDEX runs_by_expiry ON runs (expires);
    CREATE TABLE events (
        owner TEXT NOT NULL, id TEXT NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (owner, id, last)
    );
    """,
    "ALTER TABLE runs ADD COLUMN attach BLOB NOT NULL DEFAULT x'';",
)
"""Scripts that bring a file from each version of the schema to the next. `last` is the end of a run, or of an entry."""
SETTINGS = ("synchronous = NORMAL", "secure_delete = ON")
"""No commit waits for the disk: what a power failure loses has lost its process too."""
_RUN = "running, cancelled, CASE WHEN reader_until > :now THEN reader ELSE '' END, first, last"
_NAMED = "WHERE owner = :owner AND id = :id AND expires > :now"


class SqliteRunStore(SqliteCalls):
    """The runs in the file at `path`. One call may take `timeout` seconds; `clock` returns Unix seconds."""

    def __init__(self, path: str, *, timeout: float = 5.0, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        super().__init__(path, MIGRATIONS, timeout, SETTINGS)

    @transaction
    def begin(self, db: sqlite3.Connection, run: NewRun) -> bool:
        """Add a run. Return False if its owner has too many that are open."""
        now = self._clock()
        query = "SELECT count(*) FROM runs WHERE owner = ? AND running AND counts AND expires > ?"
        if run.most is not None and db.execute(query, (run.name.owner, now)).fetchone()[0] >= run.most:
            return False
        _remove(db, run.name)
        times = now + LEASE, now + run.ttl
        values = (*run.name, run.host, run.most is not None, *times, run.head, run.state, run.request)
        columns = "owner, id, host, counts, lease, expires, head, state, request"
        db.execute(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return True

    @transaction
    def write(self, db: sqlite3.Connection, host: str, changes: Sequence[Change]) -> list[Marks | None]:
        """Write changes, and renew the leases of the runs. None stands for a run of another host."""
        return [_write(db, host, change, self._clock()) for change in changes]

    @transaction
    def get(self, db: sqlite3.Connection, name: RunId) -> Run | None:
        """Return a run, or None if it is not there."""
        query = f"SELECT {_RUN}, head, state FROM runs {_NAMED}"
        row = db.execute(query, _named(name, self._clock())).fetchone()
        return _read_run(row) if row is not None else None

    @transaction
    def read(self, db: sqlite3.Connection, positions: Sequence[Position]) -> list[Rest | None]:
        """Return what follows each position; None for a run that is not there."""
        room, found = READ_BYTES, []
        for position in positions:
            rest = _read(db, position, self._clock(), READ_ENTRIES if room > 0 else 0)
            room -= sum(len(entry.data) for entry in rest.entries) if rest is not None else 0
            found.append(rest)
        return found

    @transaction
    def cancel(self, db: sqlite3.Connection, name: RunId) -> bool:
        """Set the mark that a run be cancelled. Return False for one that does not run."""
        query = f"UPDATE runs SET cancelled = 1 {_NAMED} AND running"
        return db.execute(query, _named(name, self._clock())).rowcount > 0

    @transaction
    def set_reader(self, db: sqlite3.Connection, name: RunId, reader: str, before: str | None = None) -> None:
        """Set the mark of the last reader, which ends after a lease. With `before`, only that one is replaced."""
        now = self._clock()
        values = {**_named(name, now), "reader": reader, "until": now + LEASE, "before": before}
        only = "AND (:before IS NULL OR reader = :before)"
        db.execute(f"UPDATE runs SET reader = :reader, reader_until = :until {_NAMED} {only}", values)

    @transaction
    def take(self, db: sqlite3.Connection, host: str, most: int) -> list[LostRun]:
        """Give at most so many runs that have lost their host to this one, with a new lease, and return them."""
        now = self._clock()
        gone = db.execute("SELECT owner, id FROM runs WHERE expires <= ? LIMIT ?", (now, most)).fetchall()
        for name in gone:
            _remove(db, RunId(*name))
        query = (
            f"SELECT owner, id, request, attach, {_RUN}, head, state FROM runs"
            " WHERE running AND lease <= :now LIMIT :most"
        )
        rows = db.execute(query, {"now": now, "most": most}).fetchall()
        for row in rows:
            db.execute("UPDATE runs SET host = ?, lease = ? WHERE owner = ? AND id = ?", (host, now + LEASE, *row[:2]))
        return [LostRun(RunId(*row[:2]), _read_run(row[4:]), row[2], row[3]) for row in rows]

    @transaction
    def release(self, db: sqlite3.Connection, host: str, name: RunId) -> None:
        """End the lease of a run that goes on, if it is this host's. It has no host until another process takes it."""
        values = {**_named(name, self._clock()), "host": host}
        db.execute(f"UPDATE runs SET host = '', lease = :now {_NAMED} AND running AND host = :host", values)

    @transaction
    def remove(self, db: sqlite3.Connection, names: Sequence[RunId]) -> None:
        """Delete runs."""
        for name in names:
            _remove(db, name)


def _named(name: RunId, now: float) -> dict[str, str | float | None]:
    return {"owner": name.owner, "id": name.id, "now": now}


def _read_run(row: Sequence[object]) -> Run:
    running, cancelled, *rest = row
    return Run(bool(running), bool(cancelled), *rest)  # type: ignore[arg-type]  # the columns of a row


def _write(db: sqlite3.Connection, host: str, change: Change, now: float) -> Marks | None:
    values = _named(change.name, now)
    row = db.execute(f"SELECT {_RUN}, host FROM runs {_NAMED}", values).fetchone()
    if row is None:
        return LOST
    if row[5] != host:
        return None
    _, cancelled, reader, first, last, _ = row
    for entry in change.entries:
        if entry.end > last:
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*change.name, *entry))
            last = entry.end
    if change.first > first:
        first = change.first
        db.execute("DELETE FROM events WHERE owner = ? AND id = ? AND last <= ?", (*change.name, first))
    values |= {"first": first, "last": last, "lease": now + LEASE}
    db.execute(f"UPDATE runs SET first = :first, last = :last, lease = :lease {_NAMED}", values)
    if change.state is not None:
        db.execute("UPDATE runs SET state = ? WHERE owner = ? AND id = ?", (change.state, *change.name))
    if change.attach is not None:
        db.execute("UPDATE runs SET attach = ? WHERE owner = ? AND id = ?", (change.attach, *change.name))
    if change.kept is not None:
        end = "UPDATE runs SET running = 0, request = x'', attach = x'', expires = ? WHERE owner = ? AND id = ?"
        db.execute(end, (now + change.kept, *change.name))
    return Marks(bool(cancelled), reader)


def _read(db: sqlite3.Connection, position: Position, now: float, most: int) -> Rest | None:
    values = _named(position.name, now)
    row = db.execute(f"SELECT {_RUN} FROM runs {_NAMED}", values).fetchone()
    if row is None:
        return None
    if position.reader:
        values |= {"reader": position.reader, "until": now + LEASE}
        db.execute(f"UPDATE runs SET reader_until = :until {_NAMED} AND reader = :reader", values)
    query = "SELECT last, count, data FROM events WHERE owner = ? AND id = ? AND last > ? ORDER BY last LIMIT ?"
    entries = [Entry(*entry) for entry in db.execute(query, (*position.name, position.number, most))]
    return Rest(_read_run((*row, b"", b"")), entries)


def _remove(db: sqlite3.Connection, name: RunId) -> None:
    db.execute("DELETE FROM events WHERE owner = ? AND id = ?", name)
    db.execute("DELETE FROM runs WHERE owner = ? AND id = ?", name)
