"""The phases of a Messages stream, and the events that move it from one to the next (messages §8, mapping §9.5).

`READER` moves `MessagesReader` by the upstream's events, `WRITER` moves `MessagesWriter` by canonical events. Only
structural events are listed. Those of one block are not: deltas and ends of blocks depend on the blocks that are open
(`dialects.shared.block_index`), and a `ping` is allowed in every phase. Unknown events are dropped and recorded.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from dragoman.errors import StreamTruncated, UpstreamProtocolError


class Phase(IntEnum):
    """The position of a reader or writer in its stream."""

    WAITING = 0
    """No event yet."""
    BLOCKS = 1
    """The message has started; blocks start and end."""
    STOPPED = 2
    """The stop reason is known, and all blocks are closed."""
    DONE = 3
    """The message has ended, or an error has ended the stream. Nothing more is read or written."""


READER: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.WAITING: {"message_start": Phase.BLOCKS, "error": Phase.DONE},
    Phase.BLOCKS: {
        "content_block_start": Phase.BLOCKS,
        "message_delta": Phase.BLOCKS,
        "stop_reason": Phase.STOPPED,
        "error": Phase.DONE,
    },
    Phase.STOPPED: {"message_delta": Phase.STOPPED, "message_stop": Phase.DONE, "error": Phase.DONE},
    Phase.DONE: {},
}
"""Phase of the reader → event of the upstream → next phase.

`stop_reason` stands for a `message_delta` that holds one, which is both events. A second one is ignored and recorded.
Any other event that is absent in a phase is an error of the upstream, see `READER_ERRORS`; like every error that the
reader finds, it leads to `DONE`. If the upstream's body ends before `DONE`, the stream was cut, unless the profile
allows to leave `message_stop` out and the phase is `STOPPED`. In `DONE`, events are not read.
"""

_EARLY: Final = "upstream sent an event before message_start"
_TWICE: Final = "upstream sent message_start twice"

READER_ERRORS: Final[dict[Phase, dict[str, str]]] = {
    Phase.WAITING: {"content_block_start": _EARLY, "message_delta": _EARLY, "message_stop": _EARLY},
    Phase.BLOCKS: {"message_start": _TWICE, "message_stop": "upstream sent message_stop before a stop_reason"},
    Phase.STOPPED: {
        "message_start": _TWICE,
        "content_block_start": "upstream started a block after the stop_reason",
    },
}
"""Phase of the reader → event that is not allowed in it → message of the error."""

WRITER: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.WAITING: {"Start": Phase.BLOCKS, "Error": Phase.DONE},
    Phase.BLOCKS: {
        "BlockStart": Phase.BLOCKS,
        "BlockEnd": Phase.BLOCKS,
        "Finish": Phase.STOPPED,
        "Error": Phase.DONE,
    },
    Phase.STOPPED: {"End": Phase.DONE, "Error": Phase.DONE},
    Phase.DONE: {},
}
"""Phase of the writer → canonical event → next phase.

An event of the table that is absent in a phase is an UpstreamProtocolError, which is written as an `Error`. Other
events (`Delta`, `Opaque`, `Annotation`, `Logprobs`, `Ping`) do not change the phase. In `DONE`, events are not written.
"""


def read_phase(phase: Phase, event: str) -> Phase:
    """Return the next phase of a reader after an event of the upstream, by `READER`.

    Raises UpstreamProtocolError if it is not allowed in `phase`, StreamTruncated for a `message_stop` before the stop
    reason.
    """
    following = READER[phase].get(event)
    if following is None:
        error = StreamTruncated if phase is Phase.BLOCKS and event == "message_stop" else UpstreamProtocolError
        raise error(READER_ERRORS[phase][event])
    return following


def write_phase(phase: Phase, event: str) -> Phase:
    """Return the next phase of a writer after a canonical event, by `WRITER`.

    Raises UpstreamProtocolError if it is not allowed in `phase`.
    """
    following = WRITER[phase].get(event)
    if following is None:
        raise UpstreamProtocolError(f"upstream sent {event} in the phase {phase.name}")
    return following
