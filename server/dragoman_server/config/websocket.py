"""The table `[server.websocket]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from dragoman.gateway import changed_fields

_MIB = 1024 * 1024
_LEAST = {"concurrent": 1, "queue": 1, "responses": 1, "history": 1024, "total_history": 1024}


def _option(default: Any, doc: str) -> Any:
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class WebSocketOptions:
    """The WebSocket of `/v1/responses`. `enabled` applies at once, the other options to new connections."""

    __repr__ = changed_fields

    enabled: bool = _option(True, "offer the WebSocket; false answers 426, after which clients use POST")
    max_age: float = _option(3600.0, "seconds after which a connection starts no more responses, and is closed")
    concurrent: int = _option(16, "responses that one connection creates at once; more wait")
    queue: int = _option(64, "responses of one connection that wait; more are rejected")
    responses: int = _option(64, "responses of one connection that can be continued, the newest (a count)")
    history: int = _option(32 * _MIB, "bytes of their items that one connection keeps, in memory")
    total_history: int = _option(512 * _MIB, "bytes of items that all connections of one process keep")

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the problems as (path, message)."""
        for option in fields(self):
            value = getattr(self, option.name)
            if type(value) is bool:
                continue
            least = _LEAST.get(option.name, 0)
            expected = f"expected {least} or more" if least else "expected a number above 0"
            if not (isfinite(value) and (value >= least if least else value > 0)):
                yield f"server.websocket.{option.name}", f"{expected}; got {value:g}"
