"""Rows of usage in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_table import PostgresTable
from dragoman_server.accounts.usage.row import UsageRow
from dragoman_server.accounts.usage.sink import RowSink
from support.postgres_server import PASSWORD, PostgresServer, postgres_server
from support.waiting import until


def table(server: PostgresServer, schema: str, *, keep_days: int = 0, now: float = 0.0) -> PostgresTable:
    options = UsageOptions("postgresql", url=server.url, prefix=schema, keep_days=keep_days)
    found = PostgresTable(options, lambda: now)
    found.open()
    return found


def rows(server: PostgresServer, query: str) -> list[Any]:
    return [tuple(row) for row in server.execute(query)]


def test_a_row_has_the_types_of_its_columns(postgres: PostgresServer, booked: Callable[..., UsageRow]) -> None:
    file = table(postgres, "typed")
    usage = Usage(input_total=100, output_total=7, other_models=(("other", Usage(input_total=3)),))
    file.write([booked(1, usage=usage, other_costs=(Decimal("0.5"),), estimated=("input_total", "output_total"))])
    file.write([booked(2, cost=None, key=None)])
    file.close()
    found = rows(
        postgres,
        "SELECT id, time, key, input, cost, estimated, other_models ->> 0, stream, partial"
        " FROM typed.usage ORDER BY id",
    )
    other = '{"cost": 0.5, "input": 3, "model": "other"}'
    first = datetime.fromtimestamp(1_790_000_001, UTC)
    assert found[0] == ("req_1", first, "team", 100, Decimal("0.000123"), ["input", "output"], other, True, False)
    assert found[1][2:7] == (None, 100, None, [], None)


def test_an_exchange_is_in_the_table_once(postgres: PostgresServer, booked: Callable[..., UsageRow]) -> None:
    file = table(postgres, "once")
    file.write([booked(1)])
    file.write([booked(1), booked(2)])
    file.write([booked(3)])
    file.close()
    assert rows(postgres, "SELECT id FROM once.usage ORDER BY id") == [("req_1",), ("req_2",), ("req_3",)]


def test_texts_and_numbers_that_postgresql_cannot_store(
    postgres: PostgresServer, booked: Callable[..., UsageRow]
) -> None:
    file = table(postgres, "odd")
    usage = Usage(input_total=10**30, output_total=1, other_models=(("a\0\\u0000b", Usage(input_total=5)),))
    row = booked(1, usage=usage, tag="\ud800x")
    row.model = "m\0\n'\";"
    file.write([row, booked(2)])
    file.close()
    found = rows(postgres, "SELECT model, tag, input, other_models -> 0 ->> 'model' FROM odd.usage ORDER BY id")
    assert found[0] == ("m?\n'\";", "?x", 2**63 - 1, "a?\\u0000b")
    assert len(found) == 2


def test_old_rows_are_deleted_once_a_day(postgres: PostgresServer, booked: Callable[..., UsageRow]) -> None:
    now = 1_790_000_000 + 3 * 86_400.0
    file = table(postgres, "aged", keep_days=2, now=now)
    file.write([booked(1), booked(2 * 86_400)])
    file.write([booked(3)])
    file.close()
    assert rows(postgres, "SELECT id FROM aged.usage ORDER BY id") == [("req_172800",), ("req_3",)]


def test_a_later_schema_and_a_wrong_password_are_refused(
    postgres: PostgresServer, booked: Callable[..., UsageRow]
) -> None:
    file = table(postgres, "late")
    file.write([booked(1)])
    file.close()
    postgres.execute("UPDATE late.versions SET version = 9")
    wrong = UsageOptions("postgresql", url=postgres.url_of(password="wrong-canary"))
    for file, advice in (
        (table(postgres, "late"), "of a later Dragoman: update this one, or name another database in usage.url"),
        (PostgresTable(wrong), "(check the user and the password in usage.url)"),
    ):
        with closing(file), pytest.raises(ValueError, match=re.escape(advice)) as caught:
            file.write([booked(2)])
        assert "canary" not in str(caught.value)


def test_rows_wait_while_the_server_is_away_and_none_is_lost_or_written_twice(
    booked: Callable[..., UsageRow], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_server.accounts.usage.sink.PENDING_MAX", 50)
    monkeypatch.setattr("dragoman_server.accounts.usage.sink._RETRY_SECONDS", 0.05)
    dropped: list[int] = []
    with postgres_server() as server, caplog.at_level(logging.WARNING, "dragoman"):
        sink = RowSink(table(server, "dragoman"), dropped.append)
        sink.open()
        sink.add(booked(0))
        asyncio.run(until(lambda: not sink._pending))
        server.kill()
        for number in range(1, 61):
            sink.add(booked(number))
        asyncio.run(until(lambda: "usage cannot be written" in caplog.text))
        server.start()
        asyncio.run(until(lambda: not sink._pending))
        sink.close(30)
        assert rows(server, "SELECT count(*) FROM dragoman.usage") == [(51,)]
    assert sum(dropped) == 10
    assert caplog.text.count("usage cannot be written") == 1
    assert PASSWORD not in caplog.text
