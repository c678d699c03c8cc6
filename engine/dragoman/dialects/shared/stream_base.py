"""The base classes of the stream readers and writers: the loop over a batch, and the handling of errors in it.

The part of a batch before an error is never lost, so any split of the same bytes gives the same output.
"""

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
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import (
    read_error_event,
    read_error_payload,
    record_unread,
    redact_failure,
    reply_object,
)
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.shared.writer_phases import WRITER, WriterPhase
from dragoman.errors import DragomanError, Failure, UpstreamProtocolError, UpstreamStatusError
from dragoman.reply_context import ReplyContext
from dragoman.stages.block_order import ORDERED, BlockOrder, OpenBlock
from dragoman.stages.null_arguments import NullTrimmer
from dragoman.wire.delta_template import TemplateCache, VaryingKeys
from dragoman.wire.frame_scanner import next_frame, parse_frame, with_line_feeds, without_empty_lines
from dragoman.wire.json_codec import loads, loads_exact
from dragoman.wire.sse import CR, LF, DocumentFrame, Frame, FrameBatch, is_blank

RunCallback = Callable[[str, list[str]], bool]
"""Records more texts of a block: all together, and each. Returns False, and records nothing, if they exceed a limit."""

Frames = list[Frame | bytes]
"""The frames that a writer collects; `bytes` are encoded already."""

Writes = dict[type[Event], Callable[[Any, Any, Frames], None]]
"""Type of event → the method of a writer that writes it."""


_ERROR_LINE = b"event: error\n"
"""An `error` event is read by its name, whatever its data is, and so not as one of the usual frames."""

_STRUCTURAL = frozenset((Start, BlockStart, BlockEnd, Finish, End, Error))
"""The events that are allowed in some phases only."""
_COUNTED = frozenset((Start, Finish, End))
"""The events that may have token counts."""
_NEXT: dict[WriterPhase, dict[type[Event], WriterPhase | None]] = {
    phase: {kind: moves.get(kind.__name__) for kind in _STRUCTURAL} for phase, moves in WRITER.items()
}
"""`WRITER` by the types of the structural events, which is faster than by their names; None for one that is not
allowed."""


class StreamReader:
    """Reads frames as canonical events. A subclass reads one JSON payload at a time (`read`), and the end (`read_eof`).

    Calls, ends and the order of events are read strictly, as clients act on them. What is empty is ignored: a frame
    whose data is empty or null counts as a ping. A complete reply in place of a stream, or in one frame, is read too.

    Frames that a `Parser` left encoded are matched with the delta template of the current block first, which reads
    them without parsing their JSON. Any other frame drops the template, as it may change what a delta means.
    """

    __slots__ = ("_on_run", "_templates", "context", "done")

    dialect: ClassVar[Dialect]
    volatile: ClassVar[VaryingKeys] = VaryingKeys()
    """The keys of this dialect's deltas that change from one to the next, besides their text."""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False
        self._templates = TemplateCache(self.volatile)
        self._on_run: RunCallback | None = None

    def feed(self, frames: FrameBatch, /) -> list[Event]:
        """Return the events of the frames. Errors are `Error` events; nothing is raised."""
        if isinstance(frames, bytes):
            templates = self._templates
            template = templates.template
            if (
                template is not None
                and (run := template.only(frames)) is not None
                and (self._on_run is None or self._on_run(run.text, run.pieces))
            ):
                templates.fruitless = 0
                return [run]
            out: list[Event] = []
            self._read_whole(frames, out)
            return out
        out = []
        for frame in frames:
            if self.done:
                break
            if isinstance(frame, bytes):
                self._read_whole(frame, out)
            else:
                self._templates.template = None
                self._read_frame(frame, out)
        return out

    def _read_frame(self, frame: Frame, out: list[Event]) -> None:
        try:
            if frame.data is None:
                if frame.fault is not None:
                    raise frame.fault
                out.append(Ping())
            elif type(frame) is DocumentFrame:
                self._read_document(frame.data, out)
            elif frame.bare or frame.event == "error":
                self._read_error(frame, out)
            else:
                self.read(frame.data, out)
        except DragomanError as error:
            # An incomplete frame at the end of the stream is ignored; `finish` handles the end.
            if frame.whole:
                self.fail(error, out)

    def _read_error(self, frame: Frame, out: list[Event]) -> None:
        """Read an event named `error`, or JSON without a field name, which is ignored if it is no error."""
        assert frame.data is not None
        try:
            payload = loads(frame.data)
        except ValueError:
            if not frame.whole:
                return  # incomplete
            payload = None
        if not frame.bare or reports_error(payload):
            self.fail(UpstreamStatusError(read_error_event(frame.data, self.dialect)), out)

    def _read_whole(self, data: bytes, out: list[Event]) -> None:
        """Read the bytes of complete frames."""
        if CR in data:
            data = with_line_feeds(data)
        at, size, templates = 0, len(data), self._templates
        while at < size and not self.done:
            if data[at] == LF:
                data = without_empty_lines(data[at:])
                at, size = 0, len(data)
                continue
            if (template := templates.template) is not None:
                run = template.run(data, at)
                if run is not None and (self._on_run is None or self._on_run(run.text, run.pieces)):
                    templates.fruitless = 0
                    out.append(run)
                    at = template.end
                    continue
                templates.template = None
            begin = at
            line, stop, at = next_frame(data, begin, False)
            if line < 0 or (line > begin and data.startswith(_ERROR_LINE, begin)):
                out += self.feed(parse_frame(data[begin:at], self.context.limits))
                continue
            payload = data[line + 6 : stop]
            before = len(out)
            learning = templates.fruitless >= 0
            losses = len(self.context.losses) if learning else 0
            try:
                self.read(payload, out)
            except DragomanError as error:
                self.fail(error, out)
            if len(out) == before + 1 and type(delta := out[before]) is Delta:
                if not learning:
                    templates.fruitless += 1
                elif (
                    len(self.context.losses) == losses
                    and (callback := self.follow(delta)) is not None
                    and templates.learn(data[begin:line], payload, delta)
                ):
                    self._on_run = None if callback is ignore_run else callback

    def follow(self, delta: Delta) -> RunCallback | None:
        """Return the callback that records further texts of the block of `delta`; None to use no template for it."""
        return None

    def finish(self) -> list[Event]:
        """Return the last events at the end of the upstream's stream: an `Error` if its terminal event is missing."""
        out: list[Event] = []
        if not self.done:
            try:
                self.read_eof(out)
            except DragomanError as error:
                self.fail(error, out)
        return out

    def fail(self, error: DragomanError, out: list[Event]) -> None:
        """End the stream with an error."""
        out.append(Error(error.failure))
        self.done = True

    def payload(self, data: bytes) -> Any:
        """Return a frame's JSON if orjson did not parse it: None for empty data.

        Raises UpstreamProtocolError for invalid JSON.
        """
        try:
            return loads(data)
        except ValueError:
            if is_blank(data):
                return None
            raise UpstreamProtocolError("upstream sent a stream frame that is not JSON") from None

    def read_other(self, payload: Any, out: list[Event]) -> None:
        """Read the JSON of a frame that is not an object.

        Raises UpstreamProtocolError, unless it is empty, or an array of errors.
        """
        if not payload:
            out.append(Ping())
        elif reports_error(payload):
            self.fail(UpstreamStatusError(read_error_payload(payload, self.dialect)), out)
        else:
            raise UpstreamProtocolError("upstream sent a stream frame that is not a JSON object")

    def _read_document(self, data: bytes, out: list[Event]) -> None:
        """Read a body that is JSON instead of an event stream: a complete reply, or an error."""
        try:
            payload = reply_object(data, self.dialect, loads_exact)
            if payload.get("error"):
                raise UpstreamStatusError(read_error_payload(payload, self.dialect))
            self.read_whole(payload, out)
        except UpstreamProtocolError as error:
            error.forbid_retry()
            raise

    def read_whole(self, payload: Json, out: list[Event]) -> None:
        """Read a complete reply. Nothing is read after it. Raises DragomanError."""
        reply, stored = self.read_reply(payload), self.context.stored
        if stored is not None and stored.summarised is not None:
            stored.summarise(reply)
        out += events_of(reply, tier_of(self.context), self.context.moderation)
        self.done = True

    def read_reply(self, payload: Json) -> Reply:
        """Return a complete reply of this dialect. Raises DragomanError."""
        raise NotImplementedError

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one frame's data and add its events to `out`. Raises DragomanError."""
        raise NotImplementedError

    def read_eof(self, out: list[Event]) -> None:
        """Read the end of the stream. Raises StreamTruncated if the terminal event is missing."""
        raise NotImplementedError


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


def ignore_run(text: str, pieces: list[str]) -> bool:
    """The callback for blocks whose texts are only passed on."""
    return True
