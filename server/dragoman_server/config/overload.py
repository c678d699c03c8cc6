"""The table `[server.overload]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman_server.config.setting import Range, checked

_BOUND = Range(meaning="no bound")


@dataclass(frozen=True)
class Overload:
    """Bounds of one process. Above one of them it rejects new requests, and is not ready. 0 is no bound."""

    event_loop_lag: float = checked(5.0, _BOUND)
    """Seconds that ready work waits for the event loop, twice in a row; 1 is a good bound for short replies."""
    memory: int = checked(0, _BOUND)
    """Resident memory in bytes; three quarters of a container's limit is a good bound."""
    open_requests: int = checked(0, _BOUND)
    """Requests being answered at once, streams and others."""
