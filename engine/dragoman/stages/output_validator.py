"""The last stage of a translated stream that is validated: encodes the frames and checks them as a strict client would.

The grammar shares no state and no code with the writer. The first violation of a stream is recorded in
`ReplyContext.violation`, and the rest is not checked. The stream itself is never changed: most clients tolerate most
violations, and none tolerates an error in their place.
"""

from __future__ import annotations

from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import Grammar, GrammarChecker
from dragoman.wire.sse import Encoder, FrameBatch


class OutputValidator(Encoder):
    """Encodes frames and checks them against a grammar. `feed` takes complete frames, as writers return them."""

    __slots__ = ("_checker", "_context")

    def __init__(self, context: ReplyContext, grammar: Grammar) -> None:
        super().__init__()
        self._context = context
        self._checker = GrammarChecker(grammar, context.limits.validated)
        context.validated = True

    def feed(self, frames: FrameBatch, /) -> bytes:
        """Returns the bytes of all frames."""
        data = super().feed(frames)
        self._checker.feed(data)
        self._record()
        return data

    def finish(self) -> bytes:
        """Returns nothing, as no bytes are held back. A stream without its terminal frame is a violation."""
        self._checker.finish()
        self._record()
        return b""

    def _record(self) -> None:
        if self._checker.violation is not None:
            self._context.violation = self._checker.violation
