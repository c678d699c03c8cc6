"""The last stage of a translated stream that is validated: checks the frames as a strict client would.

The grammar shares no state and no code with the writer. The first violation of a stream is recorded in
`ReplyContext.violation`, and the rest is not checked. The stream itself is never changed: most clients tolerate most
violations, and none tolerates an error in their place.
"""

from __future__ import annotations

from dragoman.reply_context import ReplyContext
from dragoman.stages.grammar.checker import Grammar, GrammarChecker
from dragoman.wire.sse import FrameBatch, encode_frames


class OutputValidator:
    """Checks frames against a grammar. `feed` takes complete frames, as writers return them."""

    __slots__ = ("_checker", "_context", "done")

    def __init__(self, context: ReplyContext, grammar: Grammar) -> None:
        self.done = False
        self._context = context
        self._checker = GrammarChecker(grammar, context.limits.validated)
        context.validated = True

    def feed(self, frames: FrameBatch, /) -> FrameBatch:
        """Return the frames, as they are."""
        self._checker.feed(encode_frames(frames))
        self._record()
        return frames

    def finish(self) -> FrameBatch:
        """Return nothing, as no frames are held back. A stream without its terminal frame is a violation."""
        self._checker.finish()
        self._record()
        return []

    def _record(self) -> None:
        if self._checker.violation is not None:
            self._context.violation = self._checker.violation
