"""The row that is booked for an exchange. It holds no text of a request or a reply, and no key."""

from __future__ import annotations

from dragoman import Json, Usage
from dragoman_server.accounts.limits.period import rfc3339
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.observability.exchange_record import ExchangeRecord

TEXT_MAX = 200
"""Longest text of a row that is not from the configuration, in characters: clients choose the names of models."""
COST_MAX = 1e9
"""Largest cost of a row: SQLite stores no numbers beyond 64 bits, and readers of JSON may round large ones."""
# fmt: off
TEXTS = (
    "id", "key", "client", "client_profile", "model", "route", "provider", "upstream", "upstream_model", "ended",
    "error",
)
"""The names of the texts of a row, apart from `time` and `principal`."""
# fmt: on
COUNTS = (
    ("input", "input_total"),
    ("cache_read", "cache_read"),
    ("cache_write", "cache_write"),
    ("cache_write_1h", "cache_write_1h"),
    ("output", "output_total"),
    ("reasoning", "reasoning"),
)
"""Name of a count in a row → its attribute of the usage. `input` includes the counts of the cache, and `cache_write`
includes `cache_write_1h`."""
_NAMES = {attribute: name for name, attribute in COUNTS}
_UNKNOWN = Usage()


def row_of(record: ExchangeRecord) -> Json:
    """Return the row of an exchange, as it is written to a JSONL file."""
    usage, cost, first_event = record.usage or _UNKNOWN, record.cost, record.first_event
    return {
        "time": rfc3339(record.created),
        "id": record.request_id,
        "key": record.key,
        "client": record.endpoint or record.client,
        "client_profile": record.client_profile,
        "model": _text(record.model),
        "route": record.route,
        "provider": record.provider,
        "upstream": record.upstream,
        "upstream_model": _text(record.upstream_model),
        "ended": record.ended,
        "error": record.error_kind,
        "principal": _text(record.principal.id) if record.principal is not None else None,
        "status": record.status,
        "stream": record.stream,
        "attempts": record.attempts,
        "input": usage.input_total,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cache_write_1h": usage.cache_write_1h,
        "output": usage.output_total,
        "reasoning": usage.reasoning,
        "estimated": [_NAMES.get(name, name) for name in record.estimated] if record.estimated else [],
        "partial": record.partial,
        "cost": min(float(cost), COST_MAX) if cost is not None else None,
        "duration": _rounded(record.duration),
        "first_event": _rounded(first_event) if first_event is not None else None,
    }


def _rounded(seconds: float) -> float:
    """Return seconds with four decimals. `round` takes five times as long, as it converts them to a text."""
    return int(seconds * 10_000 + 0.5) / 10_000


def _text(value: str | None) -> str | None:
    """Return the beginning of a text, with `?` for half a surrogate pair, which JSON may hold and UTF-8 may not."""
    if value is None or (len(value) <= TEXT_MAX and value.isascii()):
        return value
    return value[:TEXT_MAX].encode("utf-8", "replace").decode()


def cost_units(row: Json) -> int | None:
    """Return the cost of a row in units that can be added without rounding."""
    cost = row.get("cost")
    return None if cost is None else round(cost * UNITS)
