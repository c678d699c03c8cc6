"""Rejection of new requests while the process has more load than `[server.overload]` allows."""

from __future__ import annotations

from dataclasses import replace

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.observability.load_monitor import LoadMonitor
from dragoman_server.observability.metric_families import SHED, Totals

RETRY_AFTER = "5"
"""Seconds after which a rejected client may try again."""
_OVERLOADED = Failure(
    FailureKind.OVERLOADED,
    "the gateway has more requests than it can answer; please retry",
    503,
    origin=FailureOrigin.PROXY,
    reason="overloaded",
)


def check_load(load: LoadMonitor, totals: Totals) -> None:
    """Raise DragomanError if a bound is exceeded, and count the rejected request in `totals`."""
    if (exceeded := load.reason()) is not None:
        totals.add(SHED, (exceeded,))
        raise DragomanError(replace(_OVERLOADED, headers={"retry-after": RETRY_AFTER}))
