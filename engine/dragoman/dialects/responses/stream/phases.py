"""Phases of a Responses stream, and the structural events that move its reader from one to the next.

Deltas and other events within an item never change the phase; the order of the events of one item is checked by the
reader's `ItemTable` and by the output validator.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from dragoman.dialects.responses.stream.read_items import HANDLERS


class Phase(IntEnum):
    """State of a stream."""

    WAITING = 0
    """Nothing of the reply was read."""
    STARTED = 1
    """The reply has started. A reader in this phase has not seen `response.created`."""
    CREATED = 2
    """The reader has seen `response.created`."""
    DONE = 3
    """The last event was read. Nothing more is."""


TERMINALS: Final[dict[str, str | None]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": None,
}
"""Terminal event → the status it means. `response.done` is an alias of some servers: its response has the status."""

_PROGRESS: Final = ("response.in_progress", "response.queued")
_LAST: Final = dict.fromkeys((*TERMINALS, "error"), Phase.DONE)

READER: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.WAITING: {
        "response.created": Phase.CREATED,
        **dict.fromkeys(_PROGRESS, Phase.STARTED),
        # Some servers start with an item. The missing start is a recorded repair.
        **dict.fromkeys(HANDLERS, Phase.STARTED),
        **_LAST,
    },
    Phase.STARTED: {"response.created": Phase.CREATED, **dict.fromkeys(_PROGRESS, Phase.STARTED), **_LAST},
    Phase.CREATED: {**dict.fromkeys(_PROGRESS, Phase.CREATED), **_LAST},
    Phase.DONE: {},
}
"""Phase → wire event → next phase (mapping §9.6).

A `response.created` that is absent is an UpstreamProtocolError; any other event that is absent leaves the phase as it
is. An event of any name with an `error` counts as `error`, unless it is a `response.created`, a terminal event or an
event of an item. A protocol error moves to DONE from every phase, and so does the end of the stream, which is a
StreamTruncated.
"""
