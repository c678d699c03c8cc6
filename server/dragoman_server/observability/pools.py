"""The numbers of connections to upstreams."""

from __future__ import annotations

from dragoman.aio import Http11Transport, Transport
from dragoman_server.observability.metric_families import UPSTREAM_CONNECTIONS, UPSTREAM_WAITING, Totals


def add_pools(transport: Transport | None, totals: Totals) -> None:
    """Add the connections of a transport on plain sockets. Others do not report theirs."""
    if isinstance(transport, Http11Transport):
        for pool in transport.pools():
            totals.put(UPSTREAM_CONNECTIONS, (pool.origin, "busy"), pool.busy)
            totals.put(UPSTREAM_CONNECTIONS, (pool.origin, "idle"), pool.idle)
            totals.put(UPSTREAM_WAITING, (pool.origin,), pool.waiting)
