"""The journal of exchanges that have begun, in PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from dragoman.wire import json_dumps
from dragoman_server.accounts.usage.journal import Begun
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_journal import PostgresJournal
from dragoman_server.accounts.usage.postgres_table import PostgresTable
from dragoman_server.accounts.usage.row import LOST, UsageRow
from support.postgres_server import PostgresServer, postgres_server

_NUMBERS = itertools.count()


@pytest.fixture
def options(postgres: PostgresServer) -> UsageOptions:
    return UsageOptions("postgresql", url=postgres.url, prefix=f"begun-{next(_NUMBERS)}")


def begun(number: int, **more: Any) -> Begun:
    return Begun(f"req_{number}", json_dumps({"id": f"req_{number}", "model": "a\0b", **more}))


def taken(options: UsageOptions, lease: float = 0.0) -> list[Any]:
    """The entries that another process takes."""
    found: list[Any] = []
    with closing(PostgresJournal(options, lease)) as journal:
        journal.take_lost(lambda _, entries: found.extend(entries))
    return sorted(found, key=lambda entry: str(entry["id"]))


@pytest.fixture
def journal(options: UsageOptions) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(options)) as made:
        yield made


def test_a_graceful_end_leaves_nothing(
    journal: PostgresJournal, options: UsageOptions, postgres: PostgresServer
) -> None:
    journal.begin([begun(1), begun(2)])
    journal.end(["req_1", "req_2", "unknown"])
    journal.close()
    counts = (
        f'SELECT (SELECT count(*) FROM "{options.prefix}".begun), (SELECT count(*) FROM "{options.prefix}".begun_by)'
    )
    assert [tuple(row) for row in postgres.execute(counts)] == [(0, 0)]


def test_entries_without_an_end_are_taken_once(journal: PostgresJournal, options: UsageOptions) -> None:
    journal.begin([begun(number) for number in range(4)])
    journal.end(["req_1", "req_3"])
    journal.begin([begun(5), begun(2, attempts=2), begun(2, attempts=3)])
    assert taken(options, lease=180.0) == []  # it lives
    expected = [json.loads(each.entry) for each in (begun(0), begun(2, attempts=3), begun(5))]
    assert taken(options) == expected
    assert taken(options) == []


def test_what_is_left_at_the_end_is_lost_at_once(journal: PostgresJournal, options: UsageOptions) -> None:
    journal.begin([begun(1)])
    journal.close()
    assert [entry["id"] for entry in taken(options, lease=180.0)] == ["req_1"]


def test_a_booking_that_fails_is_tried_again(journal: PostgresJournal, options: UsageOptions) -> None:
    journal.begin([begun(1)])

    def fails(process: str, entries: Any) -> None:
        raise ValueError("disk full")

    with closing(PostgresJournal(options, 0.0)) as other, pytest.raises(ValueError, match="disk full"):
        other.take_lost(fails)
    assert [entry["id"] for entry in taken(options)] == ["req_1"]


def test_the_row_of_an_end_replaces_that_of_a_lost_exchange(
    options: UsageOptions, postgres: PostgresServer, booked: Callable[..., UsageRow]
) -> None:
    lost, real = booked(1), booked(1)
    lost.ended, lost.output = LOST, None
    with closing(PostgresTable(options)) as table:
        for rows in ([lost], [real], [lost, booked(2)]):
            table.write_missing(rows)
    found = postgres.execute(f'SELECT id, ended, output FROM "{options.prefix}".usage ORDER BY id')
    assert [tuple(row) for row in found] == [("req_1", "completed", 7), ("req_2", "completed", 7)]


def test_a_server_that_is_away_is_used_again() -> None:
    with postgres_server() as server:
        options = UsageOptions("postgresql", url=server.url)
        with closing(PostgresJournal(options)) as journal:
            journal.begin([begun(1)])
            server.kill()
            for _ in range(2):
                with pytest.raises(ValueError, match="PostgreSQL"):
                    journal.begin([begun(2)])
            server.start()
            journal.begin([begun(3)])
            ids = asyncio.run(server.run("SELECT id FROM dragoman.begun ORDER BY id"))
            # Entries of the server's last moments may be lost with it.
            assert [name for (name,) in ids][-1] == "req_3"
