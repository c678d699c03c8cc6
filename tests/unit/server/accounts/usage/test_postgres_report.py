"""Law: PostgreSQL adds up rows as Dragoman does, by all dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.wire import json_dumps, json_loads
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_report import _GROUPS, read_sums
from dragoman_server.accounts.usage.postgres_table import PostgresTable
from dragoman_server.accounts.usage.report import COUNT_NAMES, GROUPS, sums
from dragoman_server.accounts.usage.row import LOST, UsageRow
from support.postgres_server import PostgresServer

_NUMBERS = itertools.count()
_COUNT = st.none() | st.integers(0, 10**12)
_WORD = st.none() | st.sampled_from(("", "a", "B", "ü", "x'y"))
_COST = st.none() | st.integers(0, 10**6).map(lambda units: units * 1000 / UNITS)
_PART = st.fixed_dictionaries({"model": _WORD}, optional={"input": st.integers(0, 99), "cost": _COST.filter(bool)})
_ROW = st.fixed_dictionaries(
    {
        **dict.fromkeys(COUNT_NAMES, _COUNT),
        **dict.fromkeys(("key", "tag", "model", "upstream_model", "provider", "service_tier", "speed"), _WORD),
        **dict.fromkeys(("principal", "client_profile"), _WORD),
        "time": st.sampled_from(("2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T12:00:00Z")),
        "ended": st.sampled_from(("completed", "abandoned", LOST)),
        "cost": _COST,
        "searches": st.none() | st.integers(0, 9),
        "estimated": st.sampled_from(([], ["input"], ["input", "output"])),
        "partial": st.booleans(),
        "other_models": st.lists(_PART, max_size=2),
    }
)


def test_all_dimensions_are_known() -> None:
    assert [*_GROUPS] == [*GROUPS]


def options_of(server: PostgresServer, schema: str, rows: list[UsageRow]) -> UsageOptions:
    options = UsageOptions("postgresql", url=server.url, prefix=schema)
    file = PostgresTable(options)
    file.open()
    file.write(rows)
    file.close()
    return options


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    found=st.lists(_ROW, min_size=1, max_size=6),
    dimensions=st.lists(st.sampled_from([*GROUPS]), min_size=1, max_size=3, unique=True),
    since=st.sampled_from(("", "2026-12-01T00:00:00Z")),
    until=st.sampled_from(("", "2027-01-01T00:00:00Z")),
    ended=st.sampled_from(((), (LOST,), (LOST, "completed"))),
)
def test_the_sums_are_those_of_the_rows(
    postgres: PostgresServer,
    booked: Callable[..., UsageRow],
    found: list[dict[str, Any]],
    dimensions: list[str],
    since: str,
    until: str,
    ended: tuple[str, ...],
) -> None:
    rows = [replace(booked(number), **fields) for number, fields in enumerate(found)]
    options = options_of(postgres, f"sums-{next(_NUMBERS)}", rows)
    data = [json_loads(json_dumps(row)) for row in rows]
    data = [row for row in data if not ended or row["ended"] in ended]
    expected = sums([row for row in data if since <= row["time"] < (until or "~")], dimensions)
    assert read_sums(options, since, until, dimensions, ended) == expected


def test_a_database_without_usage(postgres: PostgresServer) -> None:
    options = UsageOptions("postgresql", url=postgres.url, prefix="none-yet")
    with pytest.raises(ValueError, match="the part usage of the schema none-yet is not there yet: start a gateway"):
        read_sums(options, "", "", ["key"])
