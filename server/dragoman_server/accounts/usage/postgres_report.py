"""Sums of the usage in PostgreSQL, which the server adds up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dragoman.threads import PostgresConnection, StoreError
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_schema import USAGE
from dragoman_server.accounts.usage.report import COUNT_NAMES, Groups, Sum
from dragoman_server.accounts.usage.row import LOST
from dragoman_server.observability.exchange_record import RUNNING

_Chosen = tuple[datetime | None, datetime | None, list[str] | None]
"""The first time, the one before which rows end, and the ends of exchanges; None for all."""
_TIMEOUT: Final = 300.0
"""Longest time of a report, in seconds."""
_GROUPS: Final = {
    "key": "coalesce(nullif(key, ''), principal, '')",
    "tag": "coalesce(tag, '')",
    "model": "coalesce(nullif(upstream_model, ''), model, '')",
    "provider": "coalesce(provider, '')",
    "route": "coalesce(route, '')",
    "tier": "coalesce(service_tier, '')",
    "speed": "coalesce(speed, '')",
    "client": "coalesce(nullif(client_profile, ''), client, '')",
    "ended": "coalesce(ended, '')",
    "day": "to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "month": "to_char(time AT TIME ZONE 'UTC', 'YYYY-MM')",
}
"""The dimensions of `report.GROUPS`, as SQL."""
_CHOSEN: Final = (
    "($1::timestamptz IS NULL OR time >= $1) AND ($2::timestamptz IS NULL OR time < $2)"
    " AND ($3::text[] IS NULL OR ended = ANY($3))"
)
_SUMMED: Final = (
    "count(*)",
    *(f"sum({name})" for name in COUNT_NAMES),
    "sum(searches)",
    f"sum(cost) * {UNITS}",
    "count(*) FILTER (WHERE cost IS NULL AND (input <> 0 OR output <> 0))",
    "count(*) FILTER (WHERE estimated <> '{}')",
    "count(*) FILTER (WHERE partial)",
    f"count(*) FILTER (WHERE ended = '{LOST}')",
    f"count(*) FILTER (WHERE ended = '{RUNNING}')",
)
_PART: Final = {
    **{name: f"(part ->> '{name}')::numeric" for name in COUNT_NAMES},
    "cost": f"round((part ->> 'cost')::numeric * {UNITS})",
}
"""The counts of another model of a row, as SQL."""


def read_sums(
    options: UsageOptions, since: str, until: str, dimensions: Sequence[str], ended: Sequence[str] = ()
) -> dict[Groups, Sum]:
    """Return what `report.sums` returns of the rows of these times. Raises ValueError."""

    async def read() -> dict[Groups, Sum]:
        connection = PostgresConnection(
            options.url, USAGE, _TIMEOUT, schema=options.prefix, setting="usage.url", connections=1, read_only=True
        )
        await connection.open()
        try:
            async with connection.call() as db, db.transaction(isolation="repeatable_read", readonly=True):
                return await _sums(
                    db, connection.sql, (_moment(since), _moment(until), list(ended) or None), dimensions
                )
        finally:
            await connection.close()

    try:
        return asyncio.run(read())
    except StoreError as error:
        raise ValueError(str(error)) from None


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


async def _sums(db: Any, sql: Any, chosen: _Chosen, dimensions: Sequence[str]) -> dict[Groups, Sum]:
    names = [_GROUPS[dimension] for dimension in dimensions]
    places = ", ".join(str(number) for number in range(1, len(names) + 1))
    query = f"SELECT {', '.join((*names, *_SUMMED))} FROM SCHEMA.usage WHERE {_CHOSEN} GROUP BY {places}"
    found = {tuple(row[: len(names)]): _sum_of(row[len(names) :]) for row in await db.fetch(sql(query), *chosen)}
    if "model" in dimensions:
        await _move_parts(db, sql, chosen, dimensions, found)
    return dict(sorted(found.items()))


async def _move_parts(
    db: Any,
    sql: Any,
    chosen: _Chosen,
    dimensions: Sequence[str],
    found: dict[Groups, Sum],
) -> None:
    """Move the counts and the costs of other models of a row from the model that it was sent to."""
    names = [*(_GROUPS[dimension] for dimension in dimensions), "coalesce(part ->> 'model', '')"]
    # A total may be unknown: nothing is taken from it.
    taken = [f"sum({part}) FILTER (WHERE {name} IS NOT NULL)" for name, part in _PART.items()]
    added = [f"sum({part})" for part in _PART.values()]
    places = ", ".join(str(number) for number in range(1, len(names) + 1))
    query = (
        f"SELECT {', '.join((*names, *taken, *added))} FROM SCHEMA.usage, jsonb_array_elements(other_models) AS part"
        f" WHERE other_models IS NOT NULL AND {_CHOSEN} GROUP BY {places}"
    )
    model, number = dimensions.index("model"), len(_PART)
    for row in await db.fetch(sql(query), *chosen):
        groups, counts = tuple(row[: len(dimensions)]), row[len(names) :]
        other = (*groups[:model], row[len(dimensions)], *groups[model + 1 :])
        _add(found[groups], counts[:number], -1)
        _add(found.setdefault(other, Sum()), counts[number:], 1)


def _sum_of(values: Sequence[Any]) -> Sum:
    exchanges, *counts = [int(value or 0) for value in values]
    own = dict(zip(COUNT_NAMES, counts, strict=False))
    searches, cost, *notes = counts[len(COUNT_NAMES) :]
    return Sum(exchanges, own, searches, cost, *notes)


def _add(own: Sum, values: Sequence[Any], sign: int) -> None:
    *counts, cost = [sign * int(value or 0) for value in values]
    for name, count in zip(COUNT_NAMES, counts, strict=True):
        own.counts[name] += count
    own.cost += cost
