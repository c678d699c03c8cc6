"""The thinking blocks of an upstream Messages stream, and their signatures (mapping §5.2)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.reply_context import ReplyContext


class ThinkingReader:
    """Reads what the `thinking` blocks of one reply have besides their text. `key` is the upstream's index of a block.

    Blocks are buffered if the client can keep them in an envelope and send them back; otherwise signatures are emitted
    at once.
    """

    __slots__ = ("_budget", "_buffers_blocks", "buffers")

    def __init__(self, budget: ReplyBudget, context: ReplyContext) -> None:
        self._budget = budget
        self._buffers_blocks = context.envelope is not None
        self.buffers: dict[int, ThinkingBuffer] = {}
        """The open blocks, if they are buffered."""

    def start(self, key: int, index: int, block: Json, out: list[Event]) -> None:
        """Start a block. Raises LimitExceeded."""
        if self._buffers_blocks:
            self.buffers[key] = ThinkingBuffer(block, self._budget)
        if signature := block.get("signature"):
            self.sign(key, index, signature, out)

    def sign(self, key: int, index: int, signature: Any, out: list[Event]) -> None:
        """Add to the signature of an open block. Raises LimitExceeded."""
        if key in self.buffers:
            self.buffers[key].add_signature(signature)
        else:
            out.append(Opaque(index, DIALECT, "signature", signature))

    def flush(self, key: int, index: int, out: list[Event]) -> None:
        """Emit a buffered block at its end."""
        buffer = self.buffers.pop(key, None)
        if buffer is not None:
            # Unsigned blocks too: some servers sign nothing and still need their own blocks back (mapping §5.4).
            block = buffer.block()
            out.append(Opaque(index, DIALECT, "signature", block["signature"], block))


class ThinkingBuffer:
    """One thinking block of the stream. Its size counts against `budget`, which the blocks of a reply share."""

    __slots__ = ("_budget", "_signature", "_start", "_text")

    def __init__(self, start: Json, budget: ReplyBudget) -> None:
        self._budget = budget
        self._start = start
        self._text: list[str] = []
        self._signature: list[str] = []
        self.add_text(start.get("thinking"))

    def add_text(self, text: Any) -> None:
        """Append text. Raises LimitExceeded."""
        if type(text) is str:
            self._budget.take(len(text))
            self._text.append(text)

    def add_run(self, text: str, pieces: list[str]) -> bool:
        """Append the texts of a run. Return False, and append none, if there is no room for all."""
        if not self._budget.fits(len(text)):
            return False
        self._text.append(text)
        return True

    def add_signature(self, signature: Any) -> None:
        """Append to the signature. Raises LimitExceeded."""
        if type(signature) is str:
            self._budget.take(len(signature))
            self._signature.append(signature)

    def block(self) -> Json:
        """Return the complete block, in the form that its server needs back."""
        return {**self._start, "thinking": "".join(self._text), "signature": "".join(self._signature)}
