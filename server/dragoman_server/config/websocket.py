"""The table `[server.websocket]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.gateway import changed_fields
from dragoman_server.config.setting import Above, Range, checked

_MIB = 1024 * 1024


@dataclass(frozen=True)
class WebSocketOptions:
    """The WebSocket of `/v1/responses`. `enabled` applies at once, the other options to new connections."""

    __repr__ = changed_fields

    enabled: bool = True
    """Offer the WebSocket; false answers 426, after which clients use POST."""
    max_age: float = checked(3600.0, Above())
    """Seconds after which a connection starts no more responses, and is closed."""
    concurrent: int = checked(16, Range(1))
    """Responses that one connection creates at once; more wait."""
    queue: int = checked(64, Range(1))
    """Responses of one connection that wait; more are rejected."""
    responses: int = checked(64, Range(1))
    """Responses of one connection that can be continued, the newest (a count)."""
    history: int = checked(32 * _MIB, Range(1024))
    """Bytes of their items that one connection keeps, in memory."""
    total_history: int = checked(512 * _MIB, Range(1024))
    """Bytes of items that all connections of one process keep."""
