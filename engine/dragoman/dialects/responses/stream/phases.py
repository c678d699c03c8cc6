"""Phases of a Responses stream, and the structural events that move its reader from one to the next.

Deltas and other events within an item never change the phase; the order of the events of one item is checked by the
reader's `ItemTable`.
"""

from __future__ import annotations

from typing import Final, Literal

from dragoman.dialects.responses.stream.read_items import HANDLERS

Phase = Literal["WAITING", "STARTED", "CREATED", "DONE"]
"""State of a stream.

- `WAITING`: Nothing of the reply was read.
- `STARTED`: The reply has started. A reader in this phase has not seen `response.created`.
- `CREATED`: The reader has seen `response.created`.
- `DONE`: The last event was read. Nothing more is.
"""

TERMINALS: Final[dict[str, str | None]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": None,
}
"""Terminal event → the status it means. `response.done` is an alias of some servers: its response has the status."""

_PROGRESS: Final = ("response.in_progress", "response.queued")
_LAST: Final[dict[str, Phase]] = dict.fromkeys((*TERMINALS, "error"), "DONE")

READER: Final[dict[Phase, dict[str, Phase]]] = {
    "WAITING": {
        "response.created": "CREATED",
        **dict.fromkeys(_PROGRESS, "STARTED"),
        # Some servers start with an item. The missing start is a recorded repair.
        **dict.fromkeys(HANDLERS, "STARTED"),
        **_LAST,
    },
    "STARTED": {"response.created": "CREATED", **dict.fromkeys(_PROGRESS, "STARTED"), **_LAST},
    "CREATED": {**dict.fromkeys(_PROGRESS, "CREATED"), **_LAST},
    "DONE": {},
}
"""Phase → wire event → next phase (mapping §9.6).

A `response.created` that is absent is an UpstreamProtocolError; any other event that is absent leaves the phase as it
is. An event of any name with an `error` counts as `error`, unless it is a `response.created`, a terminal event or an
event of an item. A protocol error moves to DONE from every phase, and so does the end of the stream, which is a
StreamTruncated.
"""
