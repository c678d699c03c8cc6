"""The journal of exchanges that have begun, in PostgreSQL: an entry outlives the machine of its gateway.

Each process renews a lease with its entries. Those of a process whose lease has ended are booked by another one. If the
process lives after all, as it could not reach the server, the row of an exchange's end replaces that of a lost one.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Final, TypeVar

from dragoman.wire import json_loads
from dragoman_server.accounts.usage.journal import Begun, Book
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_line import PostgresLine

T = TypeVar("T")
LEASE: Final = 180.0
"""Seconds after the last sign of a process at which its entries are lost."""
_RENEW: Final = 30.0
"""Least seconds between two renewals."""
_TIMEOUT: Final = 5.0
_BEGIN: Final = """
    INSERT INTO SCHEMA.begun (id, process, entry)
    SELECT DISTINCT ON (id) id, $1, entry FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS new (id, entry, at)
    ORDER BY id, at DESC
    ON CONFLICT (id) DO UPDATE SET process = excluded.process, entry = excluded.entry
"""
_RENEW_LEASE: Final = """
    INSERT INTO SCHEMA.begun_by VALUES ($1, now()) ON CONFLICT (process) DO UPDATE SET seen = excluded.seen
"""
_LOST: Final = "SELECT process FROM SCHEMA.begun_by WHERE process <> $1 AND seen < now() - make_interval(secs => $2)"
_TAKE: Final = """
    UPDATE SCHEMA.begun_by SET seen = now() WHERE process = $1 AND seen < now() - make_interval(secs => $2)
    RETURNING process
"""
_LEAVE: Final = """
    UPDATE SCHEMA.begun_by SET seen = '-infinity' WHERE process = $1
"""
_FORGET: Final = """
    DELETE FROM SCHEMA.begun_by WHERE process = $1 AND NOT EXISTS (SELECT FROM SCHEMA.begun WHERE process = $1)
"""


class PostgresJournal:
    """The journal of this process. Entries of others are lost `lease` seconds after their last sign."""

    def __init__(self, options: UsageOptions, lease: float = LEASE) -> None:
        self._lease = lease
        self._process = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(6).hex()}"
        self._begins, self._ends = PostgresLine(options, _TIMEOUT), PostgresLine(options, _TIMEOUT)
        self._beginning = threading.Lock()
        self._renewed = -_RENEW
        """The time of the last renewal. Both threads may set it."""

    def begin(self, begun: Sequence[Begun]) -> None:
        """Keep entries. Raises ValueError."""
        ids, entries = [each.id for each in begun], [each.entry.decode() for each in begun]

        async def work(db: Any, sql: Callable[[str], str]) -> None:
            await self._renew(db, sql)
            await db.execute(sql(_BEGIN), self._process, ids, entries)

        with self._beginning:
            _call(self._begins, work)

    def end(self, ids: Iterable[str]) -> None:
        """Remove the entries of exchanges that are booked. Raises ValueError."""
        booked = list(ids)

        async def work(db: Any, sql: Callable[[str], str]) -> None:
            await db.execute(sql("DELETE FROM SCHEMA.begun WHERE id = ANY($1::text[])"), booked)
            await self._renew(db, sql)

        _call(self._ends, work)

    def take_lost(self, book: Book) -> None:
        """Book the entries of processes whose lease has ended, each by one process. Raises ValueError."""

        async def find(db: Any, sql: Callable[[str], str]) -> list[str]:
            await self._renew(db, sql)
            return [process for (process,) in await db.fetch(sql(_LOST), self._process, self._lease)]

        for process in _call(self._ends, find):

            async def take(db: Any, sql: Callable[[str], str], process: str = process) -> list[tuple[str, str]] | None:
                if await db.fetchval(sql(_TAKE), process, self._lease) is None:
                    return None  # another process has just taken it
                rows = await db.fetch(sql("SELECT id, entry FROM SCHEMA.begun WHERE process = $1"), process)
                return [(name, entry) for name, entry in rows]

            async def forget(db: Any, sql: Callable[[str], str], process: str = process) -> None:
                await db.execute(sql(_FORGET), process)

            entries = _call(self._ends, take)
            if entries:
                book(process, [json_loads(entry) for _, entry in entries])
                self.end(name for name, _ in entries)
            if entries is not None:
                _call(self._ends, forget)

    def close(self) -> None:
        """Leave the entries that are left, so that they are lost at once. Raises ValueError."""

        async def work(db: Any, sql: Callable[[str], str]) -> None:
            await db.execute(sql(_LEAVE), self._process)
            await db.execute(sql(_FORGET), self._process)

        try:
            _call(self._ends, work)
        finally:
            self._ends.close()
            # A thread that still waits for the server keeps its connection until the process ends.
            if self._beginning.acquire(timeout=_TIMEOUT):
                self._begins.close()
                self._beginning.release()

    async def _renew(self, db: Any, sql: Callable[[str], str]) -> None:
        if monotonic() - self._renewed >= min(_RENEW, self._lease / 3):
            await db.execute(sql(_RENEW_LEASE), self._process)
            self._renewed = monotonic()


def _call(line: PostgresLine, work: Callable[[Any, Callable[[str], str]], Awaitable[T]]) -> T:
    """Return what `work` returns, which gets the connection, and what puts the schema into a statement."""

    async def run() -> T:
        async with line.connection.call() as db, db.transaction():
            # An entry must outlive its gateway, not the server: no request waits for the server's disk.
            await db.execute("SET LOCAL synchronous_commit = off")
            return await work(db, line.connection.sql)

    return line.run(run())
