"""The store in an SQLite file: for one machine, with any number of processes; it survives a restart."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord, records_of
from dragoman_server.accounts.limits.claim import KEPT_MS, LEASE_MS, Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import KeyState, decide, holds_of, settle
from dragoman_server.accounts.limits.period import periods_at
from dragoman_server.accounts.store.interface import Lease, Spent, StoredKeys, StoreError, spent_of
from dragoman_server.accounts.store.memory import COOLDOWNS_MAX
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.sqlite_calls import SqliteCalls, transaction

T = TypeVar("T")
MIGRATIONS = (
    """
    CREATE TABLE counters (
        key TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL, value INTEGER NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY (key, name)
    ) WITHOUT ROWID;
    CREATE TABLE leases (
        key TEXT NOT NULL, lease TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (key, lease)
    ) WITHOUT ROWID;
    CREATE INDEX leases_by_expiry ON leases (key, expires);
    CREATE TABLE settled (lease TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX settled_by_time ON settled (until);
    CREATE TABLE keys (id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE keys_version (version INTEGER NOT NULL);
    INSERT INTO keys_version VALUES (0);
    CREATE TABLE cooldowns (name TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
    """,
    """
    ALTER TABLE counters ADD COLUMN others TEXT NOT NULL DEFAULT '';
    UPDATE counters SET at = strftime('%s') * 1000 WHERE period != '';
    ALTER TABLE cooldowns ADD COLUMN lasts INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE holds (
        key TEXT NOT NULL, lease TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL, amount INTEGER NOT NULL,
        expires INTEGER NOT NULL, PRIMARY KEY (key, lease, name)
    ) WITHOUT ROWID;
    """,
)
"""Scripts that bring a file from each version of the schema to the next."""
_FORGOTTEN_MS = 100 * 86_400_000
"""Time after which rows that are void are deleted. A clock that is wrong by less deletes nothing that is needed."""
_AHEAD_MS = 60_000
"""Time by which a cooldown may seem longer than it is. One that seems to be longer still was set by a wrong clock."""


def connect_read_only(path: str) -> sqlite3.Connection:
    """Return a connection to an SQLite file that cannot write. Raises sqlite3.Error, also if there is no file."""
    file = Path(os.path.realpath(path))
    # Without a log no process uses the file. Then it is read without locks, for which SQLite would create files.
    alone = "" if os.path.exists(f"{file}-wal") else "&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?mode=ro{alone}", uri=True, isolation_level=None)


class SqliteAccountStore(SqliteCalls):
    """The store in a file. `clock` returns Unix seconds. With `read_only` nothing is written, and no file created."""

    def __init__(
        self, options: StoreOptions, clock: Callable[[], float] = time.time, *, read_only: bool = False
    ) -> None:
        super().__init__(options.path, MIGRATIONS, options.timeout)
        self._clock = clock
        self._read_only = read_only

    async def open(self) -> None:
        """Open the file, create it if it does not exist, and bring it to the current version of the schema."""
        if not self._read_only:
            await super().open()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` with the file and return its result. Raises StoreError."""
        if not self._read_only:
            return await super().run(work)
        try:
            with closing(connect_read_only(self._path)) as db:
                return work(db)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from None

    def _now(self) -> int:
        return int(self._clock() * 1000)

    @transaction
    def ping(self, db: sqlite3.Connection) -> None:
        """Run a query."""
        db.execute("SELECT version FROM keys_version").fetchone()

    async def remarks(self) -> Sequence[str]:
        """Return nothing: there is nothing to set."""
        return ()

    async def now(self) -> float:
        """Return the time of this machine."""
        return self._clock()

    @transaction
    def admit(self, db: sqlite3.Connection, claim: Claim) -> Outcome:
        """Grant a claim or reject it."""
        now = self._now()
        db.execute("DELETE FROM leases WHERE key = ? AND expires <= ?", (claim.key, now - _FORGOTTEN_MS))
        count = "SELECT count(*) FROM leases WHERE key = ? AND expires > ?"
        (is_open,) = db.execute(count, (claim.key, now)).fetchone()
        state, periods = _read(db, claim.key), periods_at(now)
        if claim.limits.budgets:
            _read_holds(db, claim.key, state, now)
        outcome = decide(state, claim, is_open, now, periods)
        if not outcome.rejected:
            _write(db, claim.key, state, now)
            db.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (claim.key, claim.lease, now + LEASE_MS))
            _end_holds(db, claim.key, claim.lease)
            rows = [(claim.key, claim.lease, *hold, now + LEASE_MS) for hold in holds_of(state, claim, periods)]
            db.executemany("INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?)", rows)
        return outcome

    @transaction
    def settle(self, db: sqlite3.Connection, settlements: Sequence[Settlement]) -> None:
        """Apply the settlements, each once."""
        now = self._now()
        for each in settlements:
            key, lease = each.claim.key, each.claim.lease
            if each.granted:
                query = "DELETE FROM leases WHERE key = ? AND lease = ? AND expires > ?"
                done = db.execute(query, (key, lease, now - KEPT_MS))
                if each.claim.holds:
                    _end_holds(db, key, lease)
            else:
                db.execute("DELETE FROM settled WHERE until <= ?", (now - _FORGOTTEN_MS,))
                db.execute("DELETE FROM settled WHERE lease = ? AND until <= ?", (lease, now))
                done = db.execute("INSERT OR IGNORE INTO settled VALUES (?, ?)", (lease, now + KEPT_MS))
            if done.rowcount:
                state = _read(db, key)
                settle(state, each.claim, each.changes, now, periods_at(now))
                _write(db, key, state, now)

    async def renew(self, leases: Iterable[Lease]) -> None:
        """Keep the leases from expiring."""
        pairs = list(leases)

        def work(db: sqlite3.Connection) -> None:
            expires = self._now() + LEASE_MS
            rows = [(expires, key, lease, expires - LEASE_MS) for key, lease in pairs]
            db.executemany("UPDATE holds SET expires = ? WHERE key = ? AND lease = ? AND expires > ?", rows)
            kept = [(*row, expires - LEASE_MS - KEPT_MS) for *row, _ in rows]
            db.executemany("UPDATE leases SET expires = ? WHERE key = ? AND lease = ? AND expires > ?", kept)

        await self.run(work)

    @transaction
    def spent(self, db: sqlite3.Connection, key: str) -> Sequence[Spent]:
        """Return the budgets of a key."""
        return spent_of(_read(db, key), periods_at(self._now()))

    @transaction
    def keys(self, db: sqlite3.Connection, known: Hashable | None = None) -> StoredKeys | None:
        """Return all keys, or None if their version is still `known`."""
        (version,) = db.execute("SELECT version FROM keys_version").fetchone()
        if version == known:
            return None
        rows = db.execute("SELECT data FROM keys ORDER BY id")
        return StoredKeys(version, records_of(data for (data,) in rows))

    @transaction
    def put_key(self, db: sqlite3.Connection, record: KeyRecord) -> None:
        """Add a key."""
        (others,) = db.execute("SELECT count(*) FROM keys WHERE id != ?", (record.id,)).fetchone()
        if others >= KEYS_MAX:
            raise StoreError(f"there are {KEYS_MAX} keys already: revoke some")
        db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?)", (record.id, json_dumps(record.as_data())))
        db.execute("UPDATE keys_version SET version = version + 1")

    @transaction
    def remove_key(self, db: sqlite3.Connection, key: str) -> bool:
        """Remove a key, and all counters that were not used for long."""
        now = self._now()
        old = (now - _FORGOTTEN_MS,)
        db.execute("DELETE FROM counters WHERE at < ?", old)
        db.execute("DELETE FROM leases WHERE expires < ?", old)
        db.execute("DELETE FROM holds WHERE expires < ?", old)
        if not db.execute("DELETE FROM keys WHERE id = ?", (key,)).rowcount:
            return False
        db.execute("UPDATE keys_version SET version = version + 1")
        return True

    @transaction
    def cool(self, db: sqlite3.Connection, name: str, seconds: float) -> None:
        """Let a cooldown last for at least `seconds`."""
        now = self._now()
        until = now + int(seconds * 1000)
        db.execute("DELETE FROM cooldowns WHERE until <= ?", (now - _FORGOTTEN_MS,))
        db.execute(
            "INSERT INTO cooldowns VALUES (?, ?, ?) ON CONFLICT DO UPDATE"
            " SET until = excluded.until, lasts = excluded.lasts WHERE excluded.until > until"
            " OR until > ? + lasts",
            (name, until, until - now, now + _AHEAD_MS),
        )
        db.execute(
            "DELETE FROM cooldowns WHERE name IN (SELECT name FROM cooldowns ORDER BY until DESC LIMIT -1 OFFSET ?)",
            (COOLDOWNS_MAX,),
        )

    @transaction
    def cooldowns(self, db: sqlite3.Connection) -> Mapping[str, float]:
        """Return the remaining seconds of the cooldowns."""
        now = self._now()
        query = "SELECT name, until FROM cooldowns WHERE until > ? AND until <= ? + lasts"
        return {name: (until - now) / 1000 for name, until in db.execute(query, (now, now + _AHEAD_MS))}


def _read(db: sqlite3.Connection, key: str) -> KeyState:
    """Return the counters of a key. A budget has a period, a bucket none."""
    state = KeyState()
    query = "SELECT name, period, value, at, others FROM counters WHERE key = ?"
    for name, period, value, at, others in db.execute(query, (key,)):
        if period:
            pairs = [each.partition("=") for each in others.split()]
            state.budgets[name] = period, value, tuple([(other, int(spent)) for other, _, spent in pairs])
        else:
            state.buckets[name] = value, at
    return state


def _read_holds(db: sqlite3.Connection, key: str, state: KeyState, now: int) -> None:
    """Add the reservations of a key to its state, without those of leases that have expired."""
    db.execute("DELETE FROM holds WHERE key = ? AND expires <= ?", (key, now - _FORGOTTEN_MS))
    query = "SELECT name, period, sum(amount) FROM holds WHERE key = ? AND expires > ? GROUP BY name, period"
    state.hold(db.execute(query, (key, now)).fetchall())


def _end_holds(db: sqlite3.Connection, key: str, lease: str) -> None:
    db.execute("DELETE FROM holds WHERE key = ? AND lease = ?", (key, lease))


def _write(db: sqlite3.Connection, key: str, state: KeyState, now: int) -> None:
    rows = [(key, name, "", level, at, "") for name, (level, at) in state.buckets.items()]
    for name, (period, spent, others) in state.budgets.items():
        rows.append((key, name, period, spent, now, " ".join([f"{other}={total}" for other, total in others])))
    db.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?, ?, ?)", rows)
