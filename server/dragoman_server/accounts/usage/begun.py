"""The entry of an exchange that has begun: the part of its row that is known before its request is sent.

An entry without an end is that of a process that was killed. It becomes a row that ended as `lost`, whose input is
estimated, and whose output is not known. The entry of a response that its upstream runs in the background becomes its
row when a client reads its end.
"""

from __future__ import annotations

from dataclasses import fields, replace

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman.wire import Json
from dragoman_server.accounts.limits.period import rfc3339
from dragoman_server.accounts.usage.row import COST_MAX, COUNTS, LOST, UsageRow, short_text
from dragoman_server.observability.ended_exchange import CostOf
from dragoman_server.observability.exchange_record import NOT_COMPLETE
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
        row.cost = _cost(row, Usage(input_total=row.input), None, cost_of)
    return row


def final_row(
    entry: Json,
    ended: str,
    usage: Usage,
    estimated: list[str],
    service: ServiceReport | None,
    cost_of: CostOf,
    duration: float,
) -> UsageRow:
    """Return the row of a response whose end was read. Raises TypeError if the entry lacks a field."""
    counts = {name: getattr(usage, attribute) for name, attribute in COUNTS}
    known = {name: value for name, value in entry.items() if name in _FIELDS} | counts
    row = UsageRow(**{**_LOST, "partial": ended in NOT_COMPLETE, **known, "estimated": estimated, "ended": ended})
    row.status, row.duration = 200, round(duration, 4)
    if service is not None:
        row.service_tier, row.stated_cost = service.tier, service.cost
        row.searches, row.speed = service.searches, service.speed
    row.cost = _cost(row, usage, service, cost_of)
    return row


def _cost(row: UsageRow, usage: Usage, service: ServiceReport | None, cost_of: CostOf) -> float | None:
    if row.upstream_model is None:
        return None
    cost = cost_of(usage, row.upstream_model, row.provider, service)
    return min(float(cost), COST_MAX) if cost is not None else None
