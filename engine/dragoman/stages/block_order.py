"""Blocks: the provider's own key of a block to its canonical index, and one open block at a time for some clients.

Most stream defects users report of gateways are one defect: a translator without an explicit map from the upstream's
block to its own. This is the map; a miss *is* the protocol error, so deltas need no test of their own.
"""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    Error,
    Event,
    Logprobs,
    Opaque,
    TextRun,
)
from dragoman.errors import LimitExceeded
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_codec import dumps

_PROSE = frozenset((BlockKind.TEXT, BlockKind.REFUSAL, BlockKind.REASONING))
_OPAQUE = BlockKind.OPAQUE


class BlockOrder:
    """Puts the blocks of one stream one after the other. A writer sends its events through it while blocks overlap.

    A block that starts while another is open is held back until that one ends. With `prose_ends` an open text, refusal
    or reasoning ends instead when the next block starts, and what still comes of it becomes a block of its own, whose
    index is below 0; an opaque block whose payload is still to come is overtaken. At most `limits.reply_body`
    characters are held back; more end the stream in an error.
    """

    __slots__ = (
        "_aside",
        "_current",
        "_held_back",
        "_limit",
        "_minted",
        "_moved",
        "_prose_ends",
        "_queue",
        "_shut",
        "_size",
    )

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, prose_ends: bool = False) -> None:
        self._limit = limits.reply_body
        self._prose_ends = prose_ends
        self._size = 0
        self._current: _Block | None = None
        """The block that is open."""
        self._queue: list[_Block] = []
        self._held_back: dict[int, _Block] = {}
        """Held blocks that have not ended, by index."""
        self._aside: dict[int, _Block] = {}
        """Opaque blocks that began without their payload, and were overtaken: nothing of them is to be seen yet."""
        self._shut: dict[int, BlockKind] = {}
        """Prose that ended here before its upstream ended it."""
        self._moved: dict[int, int] = {}
        """The upstream's index of such prose → that of the block which goes on with it."""
        self._minted = 0

    @property
    def busy(self) -> bool:
        """Do blocks overlap: must further events come through `feed`."""
        return bool(self._queue or self._aside or self._shut or self._moved)

    def overlaps(self, event: Event) -> bool:
        """True if this event starts a block beside an open one. Any other event is noted: it is about to be written."""
        kind = type(event)
        if kind is BlockStart:
            if self._current is not None:
                return True
            assert isinstance(event, BlockStart)
            self._current = _Block(event.index, event.kind, event.index)
        elif kind is BlockEnd:
            self._current = None
        elif kind is Opaque and self._current is not None:
            self._current.shown = True
        return False

    def feed(self, events: list[Event]) -> list[Event]:
        """The events that may leave now, with one open block at a time."""
        out: list[Event] = []
        try:
            for event in events:
                if isinstance(event, BlockStart):
                    self._start(event, event.index, out)
                elif isinstance(event, Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd):
                    self._pass(event, out)
                else:
                    out.append(event)
        except LimitExceeded as error:
            out.append(Error(error.failure))
        return out

    def _start(self, event: BlockStart, source: int, out: list[Event]) -> None:
        """A block starts; `source` is the index that its upstream gave it."""
        while self._steps_aside(out):
            self._advance(out)
        block = _Block(event.index, event.kind, source)
        if self._current is None:
            self._current = block
            out.append(event)
        else:
            block.events.append(event)
            self._queue.append(block)
            self._held_back[event.index] = block

    def _steps_aside(self, out: list[Event]) -> bool:
        """End or overtake the open block for the next one. False if there is none, or it has to be waited for."""
        current = self._current
        if current is None:
            return False
        if not self._prose_ends:
            return False
        if current.kind in _PROSE:
            self._moved.pop(current.source, None)
            self._shut[current.source] = current.kind
            out.append(BlockEnd(current.index))
        elif current.kind is _OPAQUE and not current.shown:
            self._aside[current.index] = current
        else:
            return False
        self._current = None
        return True

    def _advance(self, out: list[Event]) -> None:
        """Let held blocks go, up to one that has to be waited for."""
        while self._queue and (self._current is None or self._steps_aside(out)):
            block = self._queue.pop(0)
            self._size -= block.size
            out += block.take()
            if not block.ended:
                del self._held_back[block.index]
                self._current = block

    def _pass(self, event: _OfBlock, out: list[Event]) -> None:
        """An event of a block that has started."""
        source = event.index
        if source in self._shut:
            kind = self._shut.pop(source)
            if type(event) is BlockEnd:
                return
            self._minted -= 1
            self._moved[source] = self._minted
            self._start(BlockStart(self._minted, kind), source, out)
        if source in self._moved:
            event = _moved(event, self._moved.pop(source) if type(event) is BlockEnd else self._moved[source])
        index = event.index
        current = self._current
        if current is not None and index == current.index:
            out.append(event)
            if type(event) is BlockEnd:
                self._current = None
                self._advance(out)
            elif type(event) is Opaque:
                current.shown = True
            return
        block = self._held_back.get(index) or self._aside.get(index)
        if block is None:
            out.append(event)  # of no block: the writer's to refuse
            return
        self._size += block.hold(event)
        if self._size > self._limit:
            raise LimitExceeded("reply_body", self._limit, upstream=True)
        if block.ended and self._held_back.pop(index, None) is None:
            del self._aside[index]
            self._queue.append(block)
            if self._current is None:
                self._advance(out)


_OfBlock = Delta | TextRun | Opaque | Annotation | Logprobs | BlockEnd


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
        self.events: list[Event] = []
        self._text: StringIO | None = None
        """Held text since the last of `events`: one buffer, as a piece of one character takes 100 bytes as an event."""

    def hold(self, event: _OfBlock) -> int:
        """Keep an event; gives the characters that it takes."""
        if isinstance(event, Delta | TextRun):
            text = event.text
            if self._text is None:
                self._text = StringIO()
            size = self._text.write(text)
        else:
            self._end_text()
            self.events.append(event)
            self.ended = type(event) is BlockEnd
            self.shown |= type(event) is Opaque
            size = _size(event)
        self.size += size
        return size

    def take(self) -> list[Event]:
        """The events that were held, which are let go of."""
        self._end_text()
        events, self.events, self.size = self.events, [], 0
        return events

    def _end_text(self) -> None:
        if self._text is not None:
            text, self._text = self._text.getvalue(), None
            if text:
                self.events.append(Delta(self.index, text))


def _size(event: Opaque | Annotation | Logprobs | BlockEnd) -> int:
    if isinstance(event, Opaque):
        return len(dumps([event.payload, event.native]))
    if isinstance(event, Annotation):
        return len(dumps(event.citation.native))
    return len(dumps(event.tokens)) if isinstance(event, Logprobs) else 0


def _moved(event: _OfBlock, index: int) -> _OfBlock:
    return event._replace(index=index) if isinstance(event, TextRun) else replace(event, index=index)
