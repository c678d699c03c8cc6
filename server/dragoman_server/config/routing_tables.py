"""The key `providers` of a route in the file."""

from __future__ import annotations

from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.toml_reader import Table


def read_targets(table: Table) -> tuple[RouteTarget, ...]:
    """Return the providers of a route: names, or tables with weight, priority and model. Problems go to the table."""
    return tuple(
        RouteTarget(item) if isinstance(item, str) else _target(item) for item in table.texts_and_tables("providers")
    )


def _target(table: Table) -> RouteTarget:
    found = {"provider": "", **table.settings(RouteTarget)}
    table.finish()
    return RouteTarget(**found)
