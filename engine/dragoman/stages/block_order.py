"""Overlapping blocks, put in sequence for clients that expect one open block at a time (mapping §9.7)."""

from __future__ import annotations

from io import StringIO

from dragoman.canonical.events import (
    TEXTS,
    Annotation,
    BlockContent,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    Error,
    Event,
    Logprobs,
    Opaque,
    moved,
)
from dragoman.errors import LimitExceeded
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_codec import dumps

ORDERED = frozenset((BlockStart, BlockEnd, Opaque))
"""The events that `OpenBlock.overlaps` reads. Any other event may be written at once."""
_PROSE = frozenset(("text", "refusal", "reasoning"))


class OpenBlock:
    """The block of a stream that is open, for as long as blocks do not overlap."""

    __slots__ = ("block",)

    def __init__(self) -> None:
        self.block: _Block | None = None

    def overlaps(self, event: Event) -> bool:
        """True if this event of `ORDERED` starts a block while another is open. If not, it is recorded as written."""
        if isinstance(event, BlockStart):
            if self.block is not None:
                return True
            self.block = _Block(event.index, event.kind, event.index)
        elif isinstance(event, BlockEnd):
            self.block = None
        elif self.block is not None:
            self.block.shown = True
        return False


class BlockOrder:
    """Puts the blocks of one stream one after the other. A writer sends its events through it while blocks overlap.

    A block that starts while another is open is held back until that one ends. With `prose_ends` an open text, refusal
    or reasoning ends instead when the next block starts, and what still comes of it becomes a block of its own, whose
    index is below 0; an opaque block whose payload is still to come is overtaken. At most `limits.reply_body`
    characters are held back; more end the stream in an error. `open_block` is the block that is open at the beginning.
    """

    __slots__ = (
        "_aside",
        "_held_back",
        "_limit",
        "_minted",
        "_moved",
        "_prose_ends",
        "_queue",
        "_shut",
        "_size",
        "open_block",
    )

    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, open_block: OpenBlock | None = None, *, prose_ends: bool = False
    ) -> None:
        self.open_block = open_block or OpenBlock()
        self._limit = limits.reply_body
        self._prose_ends = prose_ends
        self._size = 0
        self._queue: list[_Block] = []
        self._held_back: dict[int, _Block] = {}
        """Held blocks that have not ended, by index."""
        self._aside: dict[int, _Block] = {}
        """Opaque blocks that were deferred before their payload came: nothing of them has been written."""
        self._shut: dict[int, BlockKind] = {}
        """Text blocks that were ended here before the upstream ended them."""
        self._moved: dict[int, int] = {}
        """The upstream's index of such a block → the index of the block that continues it."""
        self._minted = 0

    @property
    def busy(self) -> bool:
        """True if blocks overlap: further events must then pass through `feed`."""
        return bool(self._queue or self._aside or self._shut or self._moved)

    def feed(self, events: list[Event]) -> list[Event]:
        """Return the events that may be written now, with one open block at a time."""
        out: list[Event] = []
        try:
            for event in events:
                if isinstance(event, BlockStart):
                    self._start(event, event.index, out)
                elif isinstance(event, BlockContent):
                    self._pass(event, out)
                else:
                    out.append(event)
        except LimitExceeded as error:
            out.append(Error(error.failure))
        return out

    def _start(self, event: BlockStart, source: int, out: list[Event]) -> None:
        """Start a block. `source` is its index at the upstream."""
        while self._steps_aside(out):
            self._advance(out)
        block = _Block(event.index, event.kind, source)
        if self.open_block.block is None:
            self.open_block.block = block
            out.append(event)
        else:
            block.events = [event]
            self._queue.append(block)
            self._held_back[event.index] = block

    def _steps_aside(self, out: list[Event]) -> bool:
        """End or defers the open block for the next one. Return False if none is open, or if it has to end first."""
        current = self.open_block.block
        if current is None:
            return False
        if not self._prose_ends:
            return False
        if current.kind in _PROSE:
            self._moved.pop(current.source, None)
            self._shut[current.source] = current.kind
            out.append(BlockEnd(current.index))
        elif current.kind == "opaque" and not current.shown:
            self._aside[current.index] = current
        else:
            return False
        self.open_block.block = None
        return True

    def _advance(self, out: list[Event]) -> None:
        """Emit held blocks, up to one that has not ended."""
        while self._queue and (self.open_block.block is None or self._steps_aside(out)):
            block = self._queue.pop(0)
            self._size -= block.size
            out += block.take()
            if not block.ended:
                del self._held_back[block.index]
                self.open_block.block = block

    def _pass(self, event: BlockContent, out: list[Event]) -> None:
        """Process an event of a block that has started."""
        source = event.index
        if source in self._shut:
            kind = self._shut.pop(source)
            if type(event) is BlockEnd:
                return
            self._minted -= 1
            self._moved[source] = self._minted
            self._start(BlockStart(self._minted, kind), source, out)
        if source in self._moved:
            event = moved(event, self._moved.pop(source) if type(event) is BlockEnd else self._moved[source])
        index = event.index
        current = self.open_block.block
        if current is not None and index == current.index:
            out.append(event)
            if type(event) is BlockEnd:
                self.open_block.block = None
                self._advance(out)
            elif type(event) is Opaque:
                current.shown = True
            return
        block = self._held_back.get(index) or self._aside.get(index)
        if block is None:
            out.append(event)  # of no known block: the writer rejects it
            return
        self._size += block.hold(event)
        if self._size > self._limit:
            raise LimitExceeded("reply_body", self._limit, upstream=True)
        if block.ended and self._held_back.pop(index, None) is None:
            del self._aside[index]
            self._queue.append(block)
            if self.open_block.block is None:
                self._advance(out)


class _Block:
    """One block: the open one, or one that is held back with its events."""

    __slots__ = ("_text", "ended", "events", "index", "kind", "shown", "size", "source")

    def __init__(self, index: int, kind: BlockKind, source: int) -> None:
        self.index = index
        self.kind = kind
        self.source = source
        self.shown = self.ended = False
        self.size = 0
        """Characters held."""
        self.events: list[Event] | None = None
        """The events held, if any were."""
        self._text: StringIO | None = None
        """Held text since the last of `events`: one buffer, as a piece of one character takes 100 bytes as an event."""

    def hold(self, event: BlockContent) -> int:
        """Holds an event. Return its size in characters."""
        if isinstance(event, TEXTS):
            text = event.text
            if self._text is None:
                self._text = StringIO()
            size = self._text.write(text)
        else:
            self._end_text()
            self._add(event)
            self.ended = type(event) is BlockEnd
            self.shown |= type(event) is Opaque
            size = _size(event)
        self.size += size
        return size

    def take(self) -> list[Event]:
        """Return the held events and forget them."""
        self._end_text()
        events, self.events, self.size = self.events or [], None, 0
        return events

    def _add(self, event: Event) -> None:
        if self.events is None:
            self.events = []
        self.events.append(event)

    def _end_text(self) -> None:
        if self._text is not None:
            text, self._text = self._text.getvalue(), None
            if text:
                self._add(Delta(self.index, text))


def _size(event: Opaque | Annotation | Logprobs | BlockEnd) -> int:
    if isinstance(event, Opaque):
        return len(dumps([event.payload, event.native]))
    if isinstance(event, Annotation):
        return len(dumps(event.citation.native))
    return len(dumps(event.tokens)) if isinstance(event, Logprobs) else 0
