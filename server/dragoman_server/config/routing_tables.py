"""The keys `providers` and `balance` of a route in the file, and the keys and limits of a provider."""

from __future__ import annotations

from typing import Any

from dragoman_server.config.provider import Secret
from dragoman_server.config.routing_options import BALANCES, RouteTarget
from dragoman_server.config.toml_reader import Table


def read_targets(table: Table) -> tuple[RouteTarget, ...]:
    """Return the providers of a route: names, or tables with weight, priority and model. Problems go to the table."""
    return tuple(
        RouteTarget(item) if isinstance(item, str) else _target(item) for item in table.texts_and_tables("providers")
    )


def _target(table: Table) -> RouteTarget:
    provider, upstream_model = table.text("provider", required=True), table.text("upstream_model")
    weight, priority = table.number("weight"), table.integer("priority")
    table.finish()
    return RouteTarget(provider or "", upstream_model, 1.0 if weight is None else weight, priority)


def read_balance(table: Table) -> str:
    """Return how a route's requests are shared between targets of the same priority."""
    return table.word("balance", BALANCES) or BALANCES[0]


def read_provider_limits(table: Table) -> dict[str, Any]:
    """Return the fields of a provider for its keys and its limits; problems go to the table."""
    found: dict[str, Any] = {}
    if (keys := table.texts("api_keys", secret=True)) is not None:
        found["api_keys"] = tuple(Secret(key.strip()) for key in keys)
        if not keys:
            table.report("api_keys", "is empty: give at least one key, or remove the line")
        elif "api_key" in table:
            table.report("api_keys", "replaces api_key: remove one of the two")
    for name in ("concurrent", "queue"):
        if (count := table.integer(name)) is not None:
            found[name] = count
    if (seconds := table.number("queue_seconds")) is not None:
        found["queue_seconds"] = seconds
    return found
