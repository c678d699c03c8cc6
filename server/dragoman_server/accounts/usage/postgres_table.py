"""Rows of usage in a table of PostgreSQL, which the gateways of many machines write to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from dragoman.threads import StoreError
from dragoman.wire import json_dumps
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_line import PostgresLine
from dragoman_server.accounts.usage.postgres_schema import COLUMNS
from dragoman_server.accounts.usage.row import PROVISIONAL, UsageRow, cost_units
from dragoman_server.accounts.usage.sink import RowFile

log = logging.getLogger("dragoman")
TIMEOUT: Final = 10.0
"""Longest time of one statement, in seconds."""
_AT_ONCE: Final = 10_000
"""Most rows of one statement."""
_DAY: Final = 86_400
_INTEGER_MAX: Final = (1 << 63) - 1
_ENDS: Final = ", ".join(f"'{end}'" for end in PROVISIONAL)
_INSERT: Final = (
    f"INSERT INTO SCHEMA.usage ({', '.join(COLUMNS)})"
    f" VALUES ({', '.join(f'${number}' for number in range(1, len(COLUMNS) + 1))}) ON CONFLICT (id)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS)}"
    f" WHERE usage.ended IN ({_ENDS}) AND excluded.ended NOT IN ({_ENDS})"
)
"""A row that is there stays, but for that of an exchange that was taken for lost, or whose end was not known."""
_CLEAN: Final = f"DELETE FROM SCHEMA.usage WHERE id IN (SELECT id FROM SCHEMA.usage WHERE time < $1 LIMIT {_AT_ONCE})"


class PostgresTable(RowFile):
    """The table, as a `RowFile`: an event loop in the thread of the sink writes the rows. `clock` is in Unix seconds.

    The server may start later than the gateway: rows wait in the sink until it answers.
    """

    def __init__(self, options: UsageOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._line = PostgresLine(options, TIMEOUT)
        self._connection = self._line.connection
        self._cleaned = 0.0

    def open(self) -> None:
        """Return at once: the thread connects when there is a row."""

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Insert rows. Raises ValueError; rows that were written then are not written twice."""
        self._line.run(self._write(rows))

    def close(self) -> None:
        """Close the connection. Raises ValueError."""
        self._line.close()

    async def _write(self, rows: Sequence[UsageRow]) -> None:
        for start in range(0, len(rows), _AT_ONCE):
            await self._copy([_values(row) for row in rows[start : start + _AT_ONCE]])
        await self._clean()

    async def _copy(self, records: list[tuple[Any, ...]]) -> None:
        from asyncpg.exceptions import UniqueViolationError

        async with self._connection.call() as db:
            try:
                await db.copy_records_to_table(
                    "usage", schema_name=self._options.prefix, columns=COLUMNS, records=records
                )
            except UniqueViolationError:
                # They were committed although the server could not answer, or one is the end of another row.
                await db.executemany(self._connection.sql(_INSERT), records)

    async def _clean(self) -> None:
        """Delete the rows that are too old, once a day."""
        now, days = self._clock(), self._options.keep_days
        if not days or now - self._cleaned < _DAY:
            return
        self._cleaned = now
        oldest = datetime.fromtimestamp(now, UTC) - timedelta(days)
        deleted = f"DELETE {_AT_ONCE}"
        try:
            while deleted == f"DELETE {_AT_ONCE}":
                async with self._connection.call() as db:
                    deleted = await db.execute(self._connection.sql(_CLEAN), oldest)
        except StoreError as error:
            log.warning("rows of usage that are older than usage.keep_days cannot be deleted: %s", error)


def _values(row: UsageRow) -> tuple[Any, ...]:
    found = {name: _value(value) for name, value in vars(row).items()}
    others = [{name: _value(value) for name, value in part.items()} for part in row.other_models]
    found["time"] = datetime.fromisoformat(row.time)
    found["other_models"] = json_dumps(others).decode() if others else None
    if (units := cost_units(row.cost)) is not None:
        found["cost"] = Decimal(units).scaleb(-9)
    return tuple(found.values())


def _value(value: Any) -> Any:
    """Return a value that PostgreSQL can store: its texts hold no zero, and its numbers have 64 bits."""
    if type(value) is str:
        if not value.isascii():
            value = value.encode("utf-8", "replace").decode()
        return value.replace("\0", "?") if "\0" in value else value
    if type(value) is int:
        return max(-_INTEGER_MAX, min(value, _INTEGER_MAX))
    return value
