"""The entry of an exchange that has begun: the part of its row that is known before its request is sent.

An entry without an end is that of a process that was killed. It becomes a row that ended as `lost`, whose input is
estimated, and whose output is not known.
"""

from __future__ import annotations

from dataclasses import fields, replace

from dragoman import Usage
from dragoman.wire import Json
from dragoman_server.accounts.limits.period import rfc3339
from dragoman_server.accounts.usage.row import COST_MAX, LOST, UsageRow, short_text
from dragoman_server.observability.ended_exchange import CostOf
from dragoman_server.receipt import Receipt

_FIELDS = frozenset(spec.name for spec in fields(UsageRow))
_CLIENT = ("key", "client_profile", "principal", "attempts", "tag")
_LOST: Json = {
    "key": None,
    "client_profile": None,
    "model": None,
    "provider": None,
    "upstream": None,
    "upstream_model": None,
    "ended": LOST,
    "error": None,
    "principal": None,
    "status": 0,
    "stream": None,
    "attempts": 1,
    "input": None,
    "cache_read": None,
    "cache_write": None,
    "cache_write_1h": None,
    "output": None,
    "reasoning": None,
    "cost": None,
    "duration": 0.0,
    "first_event": None,
}
"""The fields of the row of a lost exchange, unless its entry has them."""


def begun_entry(receipt: Receipt) -> Json:
    """Return the entry of an exchange whose request is about to be sent: fields of its row."""
    translation, key, principal = receipt.translation, receipt.key, receipt.principal
    assert translation is not None
    return {
        "time": rfc3339(receipt.created),
        "id": receipt.request_id,
        "key": key.name if key is not None else None,
        "client": receipt.endpoint or receipt.client,
        "client_profile": receipt.client_profile,
        "model": short_text(receipt.model),
        "route": receipt.route,
        "provider": receipt.provider,
        "upstream": translation.direction.upstream.dialect,
        "upstream_model": short_text(translation.upstream_model),
        "principal": short_text(principal.id) if principal is not None else None,
        "stream": translation.stream,
        "attempts": len(receipt.attempts) + 1,
        "input": translation.context.input_estimate or None,
        "tag": receipt.tag,
    }


def with_entry(row: UsageRow, entry: Json) -> UsageRow:
    """Return the row of an exchange that another process has begun, with what only that one knew of its client."""
    known = {name: entry[name] for name in _CLIENT if name in entry}
    return replace(row, **known, first_event=None)


def lost_row(entry: Json, cost_of: CostOf) -> UsageRow:
    """Return the row of an exchange that was lost. Raises TypeError if the entry lacks a field."""
    known = {name: value for name, value in entry.items() if name in _FIELDS}
    row = UsageRow(**{**_LOST, "estimated": [], "partial": False, **known})
    if row.input is not None:
        row.estimated, row.partial = ["input"], True
        if row.upstream_model is not None:
            cost = cost_of(Usage(input_total=row.input), row.upstream_model, row.provider, None)
            row.cost = min(float(cost), COST_MAX) if cost is not None else None
    return row
