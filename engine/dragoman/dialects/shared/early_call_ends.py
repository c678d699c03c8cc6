"""Ends calls early: once their arguments are complete and another block has started.

A Chat stream has no event for the end of a call, and other upstreams may send it late. A client would have to wait for
the end of the reply to run a call that was complete long before (mapping §9.7).
"""

from __future__ import annotations

from collections.abc import Hashable

from dragoman.canonical.events import BlockEnd, Delta, Event
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.streamed_arguments import Arguments
from dragoman.errors import UpstreamProtocolError
from dragoman.reply_context import ReplyContext


class EarlyEnds:
    """Ends the open calls of one stream early. Does nothing with the knob `block_order = interleave`."""

    __slots__ = ("_arguments", "_blocks", "_last", "_on", "ended")

    def __init__(self, blocks: BlockMap, context: ReplyContext) -> None:
        self._blocks = blocks
        self._on = context.knobs.block_order != "interleave"
        self._arguments: dict[Hashable, Arguments] = {}
        """The arguments of open calls, by the block's key."""
        self._last: Hashable = None
        """The key of the last block, if that is a call: only its arguments are not checked after each fragment."""
        self.ended: dict[Hashable, None] = {}
        """The keys of the blocks that were ended here."""

    def watch(self, key: Hashable, arguments: Arguments) -> None:
        """Record that a call with JSON arguments started."""
        if self._on:
            self._arguments[key] = arguments
            self._last = key

    def before_start(self, out: list[Event]) -> None:
        """End the call before a block that is about to start, if it is complete."""
        key = self._last
        if key is not None:
            self._last = None
            if key in self._blocks.open and self._arguments[key].is_whole():
                self._end(key, out)

    def after_delta(self, key: Hashable, out: list[Event]) -> None:
        """End a call after more of its arguments, if it is complete and a later block has started."""
        arguments = self._arguments.get(key)
        if arguments is not None and not self.is_last(self._blocks.open[key][0]) and arguments.is_whole():
            self._end(key, out)

    def is_last(self, index: int) -> bool:
        """True if more of this block's text needs no check: it is the block that started last."""
        return not self._on or index == self._blocks.count - 1

    def late(self, key: Hashable, text: str, name: str) -> bool:
        """True if the block ended early. Its late text is dropped if it is white space.

        Raises UpstreamProtocolError for any other text, as nothing may follow a JSON object.
        """
        if key not in self.ended:
            return False
        if text and not text.isspace():
            raise UpstreamProtocolError(f"upstream continued the call of {name!r} after its complete arguments")
        return True

    def _end(self, key: Hashable, out: list[Event]) -> None:
        if rest := self._arguments.pop(key).rest():
            out.append(Delta(self._blocks.open[key][0], rest))
        self.ended[key] = None
        out.append(BlockEnd(self._blocks.end(key)))
