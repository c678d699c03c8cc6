"""The row that is booked for an exchange. It holds no text of a request or a reply, and no key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dragoman import Json
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.observability.exchange_record import ExchangeRecord

TEXT_MAX = 200
"""Longest text of a row, in characters: clients choose the names of models."""
TEXTS = (
    ("id", "request_id"),
    ("key", "key"),
    ("client", "client"),
    ("client_profile", "client_profile"),
    ("model", "model"),
    ("route", "route"),
    ("provider", "provider"),
    ("upstream", "upstream"),
    ("upstream_model", "upstream_model"),
    ("ended", "ended"),
    ("error", "error_kind"),
)
"""Name of a text in a row → its attribute of the record."""
COUNTS = (
    ("input", "input_total"),
    ("cache_read", "cache_read"),
    ("cache_write", "cache_write"),
    ("output", "output_total"),
    ("reasoning", "reasoning"),
)
"""Name of a count in a row → its attribute of the usage. `input` includes both counts of the cache."""
_COUNT_NAMES = {attribute: name for name, attribute in COUNTS}
_PARTIAL = ("failed", "abandoned")


def row_of(record: ExchangeRecord) -> Json:
    """Return the row of an exchange, as it is written to a JSONL file."""
    row: dict[str, Any] = {"time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    for name, attribute in TEXTS:
        value = getattr(record, attribute)
        row[name] = value[:TEXT_MAX] if value is not None else None
    row["principal"] = record.principal.id[:TEXT_MAX] if record.principal is not None else None
    row["status"], row["stream"], row["attempts"] = record.status, record.stream, record.attempts
    usage = record.usage
    for name, attribute in COUNTS:
        row[name] = getattr(usage, attribute) if usage is not None else None
    row["estimated"] = [_COUNT_NAMES.get(name, name) for name in record.estimated]
    row["partial"] = usage is not None and record.ended in _PARTIAL
    row["cost"] = float(record.cost) if record.cost is not None else None
    row["duration"] = round(record.duration, 4)
    row["first_event"] = round(record.first_event, 4) if record.first_event is not None else None
    return row


def cost_units(row: Json) -> int | None:
    """Return the cost of a row in units that can be added without rounding."""
    cost = row.get("cost")
    return None if cost is None else round(cost * UNITS)
