"""The table `[server.overload]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def _bound(default: float, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Overload:
    """Bounds of one process. Above one of them it rejects new requests, and is not ready. 0 is no bound."""

    event_loop_lag: float = _bound(
        5.0, "seconds that ready work waits for the event loop, twice in a row; 1 is a good bound for short replies"
    )
    memory: int = _bound(0, "resident memory in bytes; three quarters of a container's limit is a good bound")
    open_requests: int = _bound(0, "requests being answered at once, streams and others")
