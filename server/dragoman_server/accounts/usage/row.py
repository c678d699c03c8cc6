"""The row that is booked for an exchange. It holds no text of a request or a reply, and no key."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from dragoman import Usage
from dragoman_server.accounts.limits.period import rfc3339
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.observability.exchange_record import RUNNING

TEXT_MAX = 200
"""Longest text of a row that is not from the configuration, in characters: clients choose the names of models."""
COST_MAX = 1e9
"""Largest cost of a row: SQLite stores no numbers beyond 64 bits, and readers of JSON may round large ones."""
LOST = "lost"
"""The end of an exchange whose process was killed."""
PROVISIONAL = (LOST, RUNNING)
"""The ends of rows that a row with another end replaces."""
ENDS = ("completed", "failed", "refused", "rejected", "abandoned", LOST, RUNNING)
"""The values of `ended`. Those that have no constant are those of a receipt."""
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


@dataclass  # without slots, which would double the time of its JSON
class UsageRow:
    """The row of an exchange, whose fields are those of a JSONL file and the columns of SQLite."""

    time: str
    """When the request arrived (RFC 3339)."""
    id: str
    key: str | None
    client: str
    """The client's dialect, or the endpoint that was forwarded."""
    client_profile: str | None
    model: str | None
    route: str
    provider: str | None
    upstream: str | None
    upstream_model: str | None
    ended: str
    """One of `ENDS`."""
    error: str | None
    principal: str | None
    status: int
    stream: bool | None
    attempts: int
    input: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    output: int | None
    reasoning: int | None
    estimated: list[str]
    """The names of the counts that are estimates."""
    partial: bool
    cost: float | None
    duration: float
    first_event: float | None
    service_tier: str | None = None
    """The tier that served, if the upstream stated it."""
    stated_cost: float | None = None
    """The upstream's own price, in US dollars, if it stated one."""
    searches: int | None = None
    """The paid web searches, if the upstream counted them."""
    speed: str | None = None
    """The speed that served, if the upstream stated it: `standard`, `fast`."""
    tag: str | None = None
    """The tag of the request, else that of its key."""
    other_models: list[dict[str, Any]] = field(default_factory=list)
    """The parts of the counts and of the cost that other models than `upstream_model` used: an advisor, or a fallback
    of the vendor's. Each has its `model`, the counts that are known, and its `cost` if that is."""


def row_of(exchange: EndedExchange) -> UsageRow:
    """Return the row of an exchange."""
    receipt, usage, estimated, cost = exchange.receipt, exchange.usage or _UNKNOWN, exchange.estimated, exchange.cost
    facts, first_event = receipt.facts, exchange.first_event
    service = facts.service if facts is not None else None
    amount = float(cost) if cost is not None else None
    failure, key, principal = exchange.failure, receipt.key, receipt.principal
    # By position: so many keywords would take four times as long.
    return UsageRow(
        rfc3339(receipt.created),
        receipt.request_id,
        key.name if key is not None else None,
        receipt.endpoint or receipt.client,
        receipt.client_profile,
        short_text(receipt.model),
        receipt.route,
        receipt.provider,
        facts.upstream if facts is not None else None,
        short_text(facts.upstream_model) if facts is not None else None,
        RUNNING if receipt.runs_on else receipt.ended,
        failure.kind if failure is not None else None,
        short_text(principal.id) if principal is not None else None,
        receipt.status or 0,
        facts.stream if facts is not None else None,
        exchange.attempts,
        usage.input_total,
        usage.cache_read,
        usage.cache_write,
        usage.cache_write_1h,
        usage.output_total,
        usage.reasoning,
        [_NAMES.get(name, name) for name in estimated] if estimated else [],
        exchange.partial,
        amount if amount is None or amount < COST_MAX else COST_MAX,
        # Four decimals. `round` takes five times as long, as it converts a number to a text.
        int(exchange.duration * 10_000 + 0.5) / 10_000,
        int(first_event * 10_000 + 0.5) / 10_000 if first_event is not None else None,
        service.tier if service is not None else None,
        service.cost if service is not None else None,
        service.searches if service is not None else None,
        service.speed if service is not None else None,
        receipt.tag,
        _other_models(exchange, usage) if usage.other_models else [],
    )


def _other_models(exchange: EndedExchange, usage: Usage) -> list[dict[str, Any]]:
    parts = []
    for (model, counts), cost in zip_longest(usage.other_models, exchange.other_costs):
        if not model:  # a compaction, by the requested model
            continue
        part: dict[str, Any] = {"model": short_text(model)}
        part |= {name: count for name, attribute in COUNTS if (count := getattr(counts, attribute)) is not None}
        if cost is not None:
            part["cost"] = min(float(cost), COST_MAX)
        parts.append(part)
    return parts


def short_text(value: str | None) -> str | None:
    """Return the beginning of a text, with `?` for half a surrogate pair, which JSON may hold and UTF-8 may not."""
    if value is None or (len(value) <= TEXT_MAX and value.isascii()):
        return value
    return value[:TEXT_MAX].encode("utf-8", "replace").decode()


def cost_units(cost: float | None) -> int | None:
    """Return the cost of a row in units that can be added without rounding."""
    return None if cost is None else round(cost * UNITS)
