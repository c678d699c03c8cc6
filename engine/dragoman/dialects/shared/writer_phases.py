"""The phases of a stream that is written, and the canonical events that move it from one to the next (mapping §9.7).

They are the same in all dialects. `StreamWriter` moves by this table.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class WriterPhase(IntEnum):
    """The position of a writer in its stream."""

    WAITING = 0
    """Nothing of the reply was written."""
    OPEN = 1
    """The reply has started. Blocks start and end."""
    FINISHED = 2
    """The reason why the reply ended is known. Token counts and the end follow."""
    DONE = 3
    """The stream is complete or has failed. Nothing follows."""


WRITER: Final[dict[WriterPhase, dict[str, WriterPhase]]] = {
    WriterPhase.WAITING: {"Start": WriterPhase.OPEN, "Error": WriterPhase.DONE},
    WriterPhase.OPEN: {
        "BlockStart": WriterPhase.OPEN,
        "BlockEnd": WriterPhase.OPEN,
        "Finish": WriterPhase.FINISHED,
        "Error": WriterPhase.DONE,
    },
    WriterPhase.FINISHED: {"End": WriterPhase.DONE, "Error": WriterPhase.DONE},
    WriterPhase.DONE: {},
}
"""Phase of the writer → canonical event → next phase.

An event of the table that is absent in a phase is an UpstreamProtocolError, which is written as an `Error`. Other
events (`Delta`, `Opaque`, `Annotation`, `Logprobs`, `Ping`) do not change the phase. In `DONE`, events are not written.
"""
