"""The tables of the usage in PostgreSQL: the rows, and the journal of exchanges that have begun."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from dragoman.threads import SchemaPart
from dragoman_server.accounts.usage.row import COUNTS, UsageRow

COLUMNS: Final = tuple(spec.name for spec in fields(UsageRow))
_TYPES: Final = {
    "time": "timestamptz NOT NULL",
    "id": "text PRIMARY KEY",
    "estimated": "text[] NOT NULL",
    "other_models": "jsonb",
    "status": "integer",
    "attempts": "integer",
    "stream": "boolean",
    "partial": "boolean",
    "cost": "numeric",
    "stated_cost": "double precision",
    "duration": "double precision",
    "first_event": "double precision",
    "searches": "bigint",
    **{name: "bigint" for name, _ in COUNTS},
}
_TABLE: Final = ", ".join(f"{name} {_TYPES.get(name, 'text')}" for name in COLUMNS)
USAGE: Final = SchemaPart(
    "usage",
    (
        f"""
        CREATE TABLE SCHEMA.usage ({_TABLE});
        CREATE INDEX usage_by_time ON SCHEMA.usage (time);
        CREATE TABLE SCHEMA.begun (id text PRIMARY KEY, process text NOT NULL, entry text NOT NULL);
        CREATE INDEX begun_by_process ON SCHEMA.begun (process);
        CREATE TABLE SCHEMA.begun_by (process text PRIMARY KEY, seen timestamptz NOT NULL);
        """,
    ),
)
"""The part of the schema. `cost` is in units of the price table, exact to billionths. `begun` is the journal."""
