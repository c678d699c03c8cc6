"""The phases of an upstream connection, and the events that lead from one phase to another.

    NEW → HEAD → BODY → ENDED → IDLE → HEAD → …

Only `Connection._advance` changes a phase, and only by `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ConnectionPhase(IntEnum):
    """The phase of one upstream connection."""

    NEW = 0
    """Not connected yet."""
    IDLE = 1
    """In the pool, ready for a request."""
    HEAD = 2
    """Connected, or a request was sent; the response's head is not complete. A server may respond before it has the
    request."""
    BODY = 3
    """The head is complete, the body is not."""
    ENDED = 4
    """The response is complete and its reader has not released the connection yet."""
    DRAINING = 5
    """The reader has released the connection early; the rest of the body is read and dropped."""
    CLOSED = 6
    """Closed by either side."""


class ConnectionEvent(IntEnum):
    """An event that changes the phase of an upstream connection."""

    CONNECTED = 0
    """The connection is established."""
    REQUEST_SENT = 1
    """A request was sent on a connection from the pool."""
    HEAD_COMPLETE = 2
    """The head of the final response was parsed."""
    BODY_COMPLETE = 3
    """The end of the body was parsed."""
    RELEASED_EARLY = 4
    """The reader does not need the rest of a body that is expected to end soon."""
    POOLED = 5
    """The connection goes back to the pool."""
    CLOSE = 6
    """This side closes the connection, or the server has."""


_NEW, _IDLE, _HEAD, _BODY, _ENDED, _DRAINING, _CLOSED = ConnectionPhase
_CLOSE = {ConnectionEvent.CLOSE: _CLOSED}

TRANSITIONS: Final[Mapping[ConnectionPhase, Mapping[ConnectionEvent, ConnectionPhase]]] = {
    _NEW: {ConnectionEvent.CONNECTED: _HEAD},
    _IDLE: {ConnectionEvent.REQUEST_SENT: _HEAD, **_CLOSE},
    # POOLED: connected for a request that was cancelled meanwhile.
    _HEAD: {ConnectionEvent.HEAD_COMPLETE: _BODY, ConnectionEvent.POOLED: _IDLE, **_CLOSE},
    _BODY: {ConnectionEvent.BODY_COMPLETE: _ENDED, ConnectionEvent.RELEASED_EARLY: _DRAINING, **_CLOSE},
    _ENDED: {ConnectionEvent.POOLED: _IDLE, **_CLOSE},
    _DRAINING: {ConnectionEvent.POOLED: _IDLE, **_CLOSE},
    _CLOSED: _CLOSE,
}
"""The phase that follows each event, per phase. Any other event is a defect."""
