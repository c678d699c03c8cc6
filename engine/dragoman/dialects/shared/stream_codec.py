"""What every stream reader and writer shares: the loop over a batch, and what becomes of an error in it.

An error never loses the part of a batch before it, so any split of the same bytes gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dragoman.canonical.events import Delta, End, Error, Event, Finish, Ping, Start, TextRun, Usage
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.read import redact_failure
from dragoman.errors import DragomanError, Failure, UpstreamProtocolError
from dragoman.reply_context import ReplyContext
from dragoman.stages.block_order import BlockOrder
from dragoman.stages.null_arguments import NullTrimmer
from dragoman.wire.delta_template import TemplateCache, VaryingKeys
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import CR, LF, Frame, frame_at, without_empty_lines

Note = Callable[[TextRun], bool]
"""Takes note of more texts of a block; False, and nothing is noted, if they break a limit."""

Frames = list[Frame | bytes]
"""What writers give: frames, and bytes that are encoded already."""

Writes = dict[type[Event], Callable[[Any, Any, Frames], None]]
"""Type of event → the method of a writer that writes it."""


_HEAD_MAX = 72
"""Longest event line that is remembered."""


class _Named(dict[bytes, str | None]):
    """What a frame has before its data → its name; None if that is more than one event line, or something else."""

    def __missing__(self, head: bytes) -> str | None:
        name = None
        if head.startswith(b"event: ") and head.find(b"\n") == len(head) - 1:
            name = head[7:-1].decode("utf-8", "replace")
        if len(self) < 256:  # upstreams choose them
            self[head] = name
        return name


_NAMED = _Named({b"": ""})


class StreamReader:
    """Frames to canonical events. A subclass reads one JSON payload at a time and says what an end of file means.

    What a `Parser` left as it came is read by the groove of the block that speaks, as long as there is one. Any other
    frame ends it, as what it meant may not hold any more.
    """

    __slots__ = ("_ear", "_note", "context", "done")

    volatile: ClassVar[VaryingKeys] = VaryingKeys()
    """What changes in this dialect's deltas besides their text."""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False
        self._ear = TemplateCache(self.volatile)
        self._note: Note | None = None

    def feed(self, frames: Sequence[Frame | bytes] | bytes, /) -> list[Event]:
        """The events that follow from the frames. Faults are `Error` events; nothing is raised."""
        out: list[Event] = []
        if isinstance(frames, bytes):
            groove = self._ear.template
            if (
                groove is not None
                and (run := groove.only(frames)) is not None
                and (self._note is None or self._note(run))
            ):
                self._ear.fruitless = 0
                return [run]
            self._read_whole(frames, out)
            return out
        for frame in frames:
            if self.done:
                break
            if isinstance(frame, bytes):
                self._read_whole(frame, out)
            else:
                self._ear.template = None
                self._read_frame(frame, out)
        return out

    def _read_frame(self, frame: Frame, out: list[Event]) -> None:
        try:
            if frame.data is None:
                if frame.fault is not None:
                    raise frame.fault
                out.append(Ping())
            else:
                self.read(frame.data, out)
        except DragomanError as error:
            # Half a frame at the end of the file says nothing; what the end means is for `finish` to say.
            if frame.whole:
                self.fail(error, out)

    def _read_whole(self, data: bytes, out: list[Event]) -> None:
        """Read the bytes of whole frames."""
        at, end, ear = 0, len(data), self._ear
        frames: list[bytes] = []  # those from `at` on, the next one last, as soon as one is read by itself
        odd = CR in data
        while at < end and not self.done:
            if (groove := ear.template) is not None:
                run = ear.run(data, at)
                if run is not None and (self._note is None or self._note(run)):
                    out.append(run)
                    while frames and at < groove.end:
                        at += len(frames.pop()) + 2
                    at = groove.end
                    continue
                ear.template = None
            if not frames:
                frames = data[at:].split(b"\n\n")
                frames.reverse()
            frame = frames.pop()
            # Nearly every one is one line of data, perhaps named: its payload is cut out here, without a `Frame`.
            head, field, payload = frame.partition(b"data: ")
            if not frame or frame[0] == LF:
                data = without_empty_lines(data[at:])
                at, end, frames = 0, len(data), []
                continue
            if odd or not field or len(head) > _HEAD_MAX or LF in payload or (name := _NAMED[head]) is None:
                found, at = frame_at(data, at, self.context.limits)
                for each in found:
                    self._read_frame(each, out)
                    if self.done:
                        break
                continue
            before = len(out)
            learning = ear.fruitless >= 0
            losses = len(self.context.losses) if learning else 0
            try:
                self.read(payload, out)
            except DragomanError as error:
                self.fail(error, out)
            if len(out) == before + 1 and type(said := out[before]) is Delta:
                if not learning:
                    ear.fruitless += 1
                elif (
                    len(self.context.losses) == losses
                    and (note := self.follow(said)) is not None
                    and ear.learn(Frame(name, payload), said)
                ):
                    self._note = None if note is no_note else note
            at += len(frame) + 2

    def follow(self, said: Delta) -> Note | None:
        """What is to be noted of further texts of the block that just said this one; None if it is not sure."""
        return None

    def finish(self) -> list[Event]:
        """The upstream's stream ended: its terminal events, or an `Error` if it was cut."""
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
        """One frame's JSON, where orjson would not parse it. Raises UpstreamProtocolError if it is none."""
        try:
            return loads(data)
        except ValueError:
            raise UpstreamProtocolError("upstream sent a stream frame that is not JSON") from None

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one frame's data; may raise DragomanError."""
        raise NotImplementedError

    def read_eof(self, out: list[Event]) -> None:
        """Read the end of the stream; raises StreamTruncated if the terminal event is missing."""
        raise NotImplementedError


class StreamWriter:
    """Canonical events to frames. `done` after `End` or `Error`, the last frames there will be."""

    __slots__ = ("_crowd", "_filter", "_nulls", "_order", "context", "done")

    writes: ClassVar[Writes]
    """The method that writes each type of event other than a delta."""
    one_open: ClassVar[bool] = False
    """True if the dialect's clients may assume that at most one block is open."""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False
        # Here and no stages of their own: a hop between stages costs more than all of their work.
        self._nulls = NullTrimmer(context.nullable, context.losses).feed if context.nullable is not None else None
        self._filter = self._nulls
        """The filter that events pass before they are written."""
        order = context.knobs.block_order
        self._order: BlockOrder | None = None
        """Watches for blocks that overlap. None if they may, or while they do."""
        if order == "sequential" or (order == "auto" and self.one_open):
            self._order = BlockOrder(context.limits, prose_ends=order == "auto")
        self._crowd = self._order

    def feed(self, events: list[Event], /) -> Any:
        """The frames that follow from the events. What was spelled with its event is encoded already: as bytes among
        the frames, or instead of them if it is all there is.

        What cannot be written is an in-band error; nothing is raised.
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
                        for delta in event.deltas():
                            self.delta(delta, out)
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
                else:
                    if self._order is not None and self._order.overlaps(event):
                        self._write_in_order(events, event, out)
                        break
                    self.write(event, out)
                    if kind is Finish:
                        self.context.usage = event.usage
                    elif kind is Start:
                        # All that is ever known of a reply whose client leaves, or that is cut (mapping §10.4). What it
                        # has of the output is no count yet.
                        if (known := event.usage) is not None:
                            known = Usage(known.input_total, known.cache_read, known.cache_write, None, known.reasoning)
                        self.context.usage = known
                    elif kind is End:
                        if event.usage is not None:
                            self.context.usage = event.usage.merged_onto(self.context.usage)
                        self.done = True
                        break
        except DragomanError as error:
            self._end_in_error(error.failure, out)
        return out

    def _write_in_order(self, events: list[Event], overlapping: Event, out: Frames) -> None:
        """Write the rest of a batch from the event on that starts a block beside an open one."""
        order = self._order
        assert order is not None
        at = next(at for at, event in enumerate(events) if event is overlapping)
        self._order = self._filter = None
        written = self.feed(order.feed(events[at:]))
        self._filter = self._in_order
        out += [written] if type(written) is bytes else written

    def _in_order(self, events: list[Event]) -> list[Event]:
        """Events of a stream in which blocks overlap, or did until the last batch."""
        if self._nulls is not None:
            events = self._nulls(events)
        order = self._crowd
        assert order is not None
        if order.busy:
            return order.feed(events)
        self._filter, self._order = self._nulls, order
        return events

    def _end_in_error(self, failure: Failure, out: Frames) -> None:
        failure = redact_failure(failure, self.context.secrets)
        self.write(Error(failure), out)
        self.context.failure = failure
        self.done = True

    def finish(self) -> list[Frame]:
        """Nothing is held back: every reader ends its stream with `End` or `Error`."""
        return []

    def deltas(self, event: TextRun) -> bytes | None:
        """The encoded frames of texts that are spelled already; None if they are to be written one by one."""
        return None

    def delta(self, event: Delta, out: Frames) -> None:
        """Write one text; may raise DragomanError."""
        raise NotImplementedError

    def write(self, event: Event, out: Frames) -> None:
        """Write any other event; may raise DragomanError for one that the dialect cannot carry."""
        self.writes[type(event)](self, event, out)


def no_note(run: TextRun) -> bool:
    """For blocks whose texts are only passed on."""
    return True
