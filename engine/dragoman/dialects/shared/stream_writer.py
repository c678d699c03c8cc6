"""The base class of the stream writers: the loop over the events of a batch, their order, and errors in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Ping,
    Start,
    TextRun,
    Usage,
)
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import record_unread, redact_failure
from dragoman.dialects.shared.writer_phases import WRITER, WriterPhase
from dragoman.errors import DragomanError, Failure, UpstreamProtocolError
from dragoman.reply_context import ReplyContext
from dragoman.stages.block_order import ORDERED, BlockOrder, OpenBlock
from dragoman.stages.null_arguments import NullTrimmer
from dragoman.wire.sse import Frame, FrameBatch

Frames = list[Frame | bytes]
"""The frames that a writer collects; `bytes` are encoded already."""

Writes = dict[type[Event], Callable[[Any, Any, Frames], None]]
"""Type of event → the method of a writer that writes it."""

_STRUCTURAL = frozenset((Start, BlockStart, BlockEnd, Finish, End, Error))
"""The events that are allowed in some phases only."""
_COUNTED = frozenset((Start, Finish, End))
"""The events that may have token counts."""
_NEXT: dict[WriterPhase, dict[type[Event], WriterPhase | None]] = {
    phase: {kind: moves.get(kind.__name__) for kind in _STRUCTURAL} for phase, moves in WRITER.items()
}
"""`WRITER` by the types of the structural events, which is faster than by their names; None for one that is not
allowed."""


class StreamWriter:
    """Writes canonical events as frames. `phase` moves by the table `WRITER`; `done` is True after `End` or `Error`."""

    __slots__ = ("_filter", "_nulls", "_open_block", "_order", "context", "done", "phase")

    writes: ClassVar[Writes]
    """The method that writes each type of event other than a delta."""
    one_open: ClassVar[bool] = False
    """True if the dialect's clients may assume that at most one block is open."""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False
        self.phase: WriterPhase = "WAITING"
        # Not stages: a hop between stages costs more than all of their work.
        self._nulls = NullTrimmer(context.nullable, context.losses).feed if context.nullable is not None else None
        self._filter = self._nulls
        """Applied to the events before they are written; None most of the time."""
        order = context.knobs.block_order
        self._open_block: OpenBlock | None = None
        """Detects blocks that overlap. None if they may, or while they do."""
        if order == "sequential" or (order == "auto" and self.one_open):
            self._open_block = OpenBlock()
        self._order: BlockOrder | None = None
        """Puts overlapping blocks in order. None until there are any."""

    def feed(self, events: list[Event], /) -> FrameBatch:
        """Return the frames of the events. A run of texts is encoded already: as bytes among the frames, or instead of
        them if there is nothing else.

        An event that the dialect cannot express becomes an in-band error; nothing is raised.
        """
        out: Frames = []
        if self.done:
            return out
        if self._filter is not None:
            events = self._filter(events)
        event: Any
        try:
            for event in events:
                kind = type(event)
                if kind is TextRun:
                    self.context.output_text += len(event.text)
                    written = self.deltas(event)
                    if written is None:
                        self._write_each(event, out)
                    elif len(events) == 1:
                        return written
                    else:
                        out.append(written)
                elif kind is Delta:
                    self.context.output_text += len(event.text)
                    self.delta(event, out)
                elif kind is Error:
                    self._end_in_error(add_sizes(event.failure, self.context), out)
                    break
                elif self._open_block is not None and kind in ORDERED and self._open_block.overlaps(event):
                    self._write_in_order(events, event, out)
                    break
                else:
                    phase = self.phase
                    following = _NEXT[phase].get(kind, phase)
                    if following is None:
                        raise UpstreamProtocolError(f"upstream sent {kind.__name__} out of order")
                    self.phase = following
                    self.write(event, out)
                    if kind in _COUNTED:
                        self._note_usage(event)
                    if kind is End:
                        self.done = True
                        break
        except DragomanError as error:
            self._end_in_error(error.failure, out)
        return out

    def _write_each(self, run: TextRun, out: Frames) -> None:
        """Write a run of texts one by one."""
        for delta in run.deltas():
            self.delta(delta, out)

    def _note_usage(self, event: Start | Finish | End) -> None:
        """Record the token counts that are known after an event."""
        context, usage = self.context, event.usage
        if type(event) is Finish:
            context.usage = usage
        elif type(event) is Start:
            # All that is known of a reply whose client leaves, or that is cut (mapping §10.4). Its count of the output
            # is not final.
            context.usage = usage and Usage(
                usage.input_total, usage.cache_read, usage.cache_write, None, usage.reasoning, usage.cache_write_1h
            )
        elif usage is not None and usage is not context.usage:
            context.usage = usage.merged_onto(context.usage)

    def _write_in_order(self, events: list[Event], overlapping: Event, out: Frames) -> None:
        """Write the rest of a batch, from the event on that starts a block while another is open."""
        context, order = self.context, self._order
        if order is None:
            order = BlockOrder(context.limits, self._open_block, prose_ends=context.knobs.block_order == "auto")
            self._order = order
        at = next(at for at, event in enumerate(events) if event is overlapping)
        self._open_block = self._filter = None
        written = self.feed(order.feed(events[at:]))
        self._filter = self._in_order
        out += [written] if isinstance(written, bytes) else written

    def _in_order(self, events: list[Event]) -> list[Event]:
        """Put the events of a stream in order in which blocks overlap, or did until the last batch."""
        if self._nulls is not None:
            events = self._nulls(events)
        order = self._order
        assert order is not None
        if order.busy:
            return order.feed(events)
        self._filter, self._open_block = self._nulls, order.open_block
        return events

    def _end_in_error(self, failure: Failure, out: Frames) -> None:
        failure = redact_failure(failure, self.context.secrets)
        self.phase = "DONE"
        if failure.unread:
            record_unread(failure, self.context.losses)
        self.write(Error(for_client(failure, self.context.own_key)), out)
        self.context.failure = failure
        self.done = True

    def finish(self) -> list[Frame]:
        """Return nothing: every reader ends its stream with `End` or `Error`."""
        return []

    def deltas(self, event: TextRun) -> bytes | None:
        """Return the encoded frames of a run of texts; None if they have to be written one by one."""
        return None

    def delta(self, event: Delta, out: Frames) -> None:
        """Write one text to `out`. Raises DragomanError."""
        raise NotImplementedError

    def ping(self, event: Ping, out: Frames) -> None:
        """Write a ping as a comment."""
        out.append(Frame("", None))

    def write(self, event: Event, out: Frames) -> None:
        """Write any other event to `out`. Raises DragomanError for one that the dialect cannot express."""
        self.writes[type(event)](self, event, out)
