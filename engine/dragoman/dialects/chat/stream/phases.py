"""Phases of a Chat stream, and the transitions of its reader (chat §7).

It starts in `Phase.NEW` and moves on structural events only: texts, arguments, annotations, log probabilities and pings
never change the phase.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Phase(IntEnum):
    """Progress of one stream."""

    NEW = 0
    """Nothing but pings was read."""
    OPEN = 1
    """The stream has started. Blocks start and end."""
    FINISHED = 2
    """The `finish_reason` was read. Usage and the end follow."""
    ENDED = 3
    """The stream is complete or has failed. Nothing follows."""


READER: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.NEW: {"choice": Phase.OPEN, "error": Phase.ENDED},
    Phase.OPEN: {"finish_reason": Phase.FINISHED, "error": Phase.ENDED},
    Phase.FINISHED: {
        "finish_reason": Phase.FINISHED,  # recorded as a repair
        "usage": Phase.ENDED,
        "[DONE]": Phase.ENDED,
        "end of stream": Phase.ENDED,  # recorded as a repair
        "error": Phase.ENDED,
    },
    Phase.ENDED: {},
}
"""Phase → upstream event → next phase.

`choice` is a chunk with a choice, `usage` one with token counts and no choice, `error` an error of the upstream or in
its stream. Where an event is absent:

- `choice` is read without a transition; in `FINISHED`, a block that starts is recorded as a repair.
- `usage` is kept for the end.
- `[DONE]` and the end of the stream are the error `StreamTruncated`. After `usage`, `[DONE]` ends a reply without a
  `finish_reason` if all of its calls are complete.
- In `ENDED`, events are not read.
"""
