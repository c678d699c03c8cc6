"""The phases of a Messages stream, and the events that move it from one to the next (messages §8, mapping §9.5).

`READER` moves `MessagesReader` by the upstream's events. Only structural events are listed. Those of one block are not:
deltas and ends of blocks depend on the blocks that are open
(`dialects.shared.block_index`), and a `ping` is allowed in every phase. Unknown events are dropped and recorded.
"""

from __future__ import annotations

from typing import Final, Literal

from dragoman.errors import StreamTruncated, UpstreamProtocolError

Phase = Literal["WAITING", "BLOCKS", "STOPPED", "DONE"]
"""The position of the reader in its stream.

- `WAITING`: No event yet.
- `BLOCKS`: The message has started; blocks start and end.
- `STOPPED`: The stop reason is known, and all blocks are closed.
- `DONE`: The message has ended, or an error has ended the stream. Nothing more is read.
"""


class Moves(dict[str, Phase]):
    """The events that are allowed in one phase, and the phases after them. Looking up any other event raises its error.

    Args:
        moves: event → next phase.
        errors: event → message of its error; other events have a general one.
        truncated: an event that means that the stream was cut before it.
    """

    __slots__ = ("errors", "truncated")

    def __init__(self, moves: dict[str, Phase], errors: dict[str, str] | None = None, truncated: str = "") -> None:
        super().__init__(moves)
        self.errors, self.truncated = errors or {}, truncated

    def __missing__(self, event: str) -> Phase:
        error = StreamTruncated if event == self.truncated else UpstreamProtocolError
        raise error(self.errors.get(event, f"upstream sent {event} out of order"))


_EARLY: Final = "upstream sent an event before message_start"
_TWICE: Final = "upstream sent message_start twice"

READER: Final[dict[Phase, Moves]] = {
    "WAITING": Moves(
        {"message_start": "BLOCKS", "error": "DONE"},
        errors={"content_block_start": _EARLY, "message_delta": _EARLY, "message_stop": _EARLY},
    ),
    "BLOCKS": Moves(
        {
            "content_block_start": "BLOCKS",
            "message_delta": "BLOCKS",
            "stop_reason": "STOPPED",
            "error": "DONE",
        },
        errors={"message_start": _TWICE, "message_stop": "upstream sent message_stop before a stop_reason"},
        truncated="message_stop",
    ),
    "STOPPED": Moves(
        {"message_delta": "STOPPED", "message_stop": "DONE", "error": "DONE"},
        errors={"message_start": _TWICE, "content_block_start": "upstream started a block after the stop_reason"},
    ),
    "DONE": Moves({}),
}
"""Phase of the reader → event of the upstream → next phase.

`stop_reason` stands for a `message_delta` that holds one, which is both events. A second one is ignored and recorded,
and so is a `message_start` of the same message in `BLOCKS`.
Any other event that is absent in a phase is an UpstreamProtocolError or StreamTruncated with the message in `errors`.
Like every error that the reader finds, it leads to `DONE`. If the upstream's body ends before `DONE`, the stream was
cut, unless the profile allows to leave `message_stop` out and the phase is `STOPPED`. In `DONE`, events are not read.
"""
