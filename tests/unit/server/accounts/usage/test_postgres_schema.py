"""The tables of the usage in PostgreSQL."""

from __future__ import annotations

from dataclasses import fields

from dragoman_server.accounts.usage.postgres_schema import COLUMNS, USAGE
from dragoman_server.accounts.usage.row import UsageRow


def test_the_table_has_the_fields_of_a_row() -> None:
    assert tuple(field.name for field in fields(UsageRow)) == COLUMNS
    (script,) = USAGE.migrations
    columns = script.partition("SCHEMA.usage (")[2].partition(");")[0].split(", ")
    assert [column.split()[0] for column in columns] == list(COLUMNS)
    assert {"time timestamptz NOT NULL", "id text PRIMARY KEY", "cost numeric", "model text"} <= set(columns)
