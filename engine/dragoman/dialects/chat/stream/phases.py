"""Phases of a Chat stream, and the transitions of its reader (chat §7).

It starts in `NEW` and moves on structural events only: texts, arguments, annotations, log probabilities and pings
never change the phase.
"""

from __future__ import annotations

from typing import Final, Literal

Phase = Literal["NEW", "OPEN", "FINISHED", "ENDED"]
"""Progress of one stream.

- `NEW`: Nothing but pings was read.
- `OPEN`: The stream has started. Blocks start and end.
- `FINISHED`: The `finish_reason` was read. Usage and the end follow.
- `ENDED`: The stream is complete or has failed. Nothing follows.
"""

READER: Final[dict[Phase, dict[str, Phase]]] = {
    "NEW": {"choice": "OPEN", "error": "ENDED"},
    "OPEN": {"finish_reason": "FINISHED", "error": "ENDED"},
    "FINISHED": {
        "finish_reason": "FINISHED",  # recorded as a repair
        "usage": "ENDED",
        "[DONE]": "ENDED",
        "end of stream": "ENDED",  # recorded as a repair
        "error": "ENDED",
    },
    "ENDED": {},
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
