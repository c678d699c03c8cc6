"""The base class of the stream readers: the loop over the frames of a batch, and the handling of errors in it.

The part of a batch before an error is never lost, so any split of the same bytes gives the same output.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dragoman.canonical.events import Delta, Error, Event, Ping
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_event, read_error_payload, reply_object, unwrapped
from dragoman.dialects.shared.service_report import tier_of
from dragoman.errors import DragomanError, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback, TemplateCache, VaryingKeys
from dragoman.wire.frame_scanner import (
    LONG,
    USUAL_FRAME,
    frame_end,
    long_frame,
    parse_frame,
    with_line_feeds,
    without_empty_lines,
)
from dragoman.wire.json_codec import loads, loads_exact
from dragoman.wire.sse import CR, LF, DocumentFrame, Frame, FrameBatch, is_blank

_ERROR_LINE = b"event: error\n"
"""An `error` event is read by its name, whatever its data is, and so not as one of the usual frames."""


class StreamReader:
    """Reads frames as canonical events. A subclass reads one JSON payload at a time (`read`), and the end (`read_eof`).

    Calls, ends and the order of events are read strictly, as clients act on them. What is empty is ignored: a frame
    whose data is empty or null counts as a ping. A complete reply in place of a stream, or in one frame, is read too.

    Frames that a `Parser` left encoded are matched with the delta template of the current block first, which reads
    them without parsing their JSON. Any other frame drops the template, as it may change what a delta means.
    """

    __slots__ = ("_event_line", "_on_run", "_templates", "context", "done")

    dialect: ClassVar[Dialect]
    volatile: ClassVar[VaryingKeys] = VaryingKeys()
    """The keys of this dialect's deltas that change from one to the next, besides their text."""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False
        self._templates = TemplateCache(self.volatile)
        self._on_run: RunCallback | None = None
        self._event_line: bytes | str = ""
        """The event line of the last frame that was read, or its name."""

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
                self._event_line = frame.event
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
        losses = len(self.context.losses)
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
            usual = USUAL_FRAME.match(data, begin) if size - begin < LONG else long_frame(data, begin)
            line, payload = (b"", b"") if usual is None else usual.groups()
            if usual is None or line == _ERROR_LINE:
                at = frame_end(data, begin, False)[1]
                out += self.feed(parse_frame(data[begin:at], self.context.limits))
                continue
            at = usual.end()
            before = len(out)
            learning = templates.fruitless >= 0
            self._event_line = line
            try:
                self.read(payload, out)
            except DragomanError as error:
                self.fail(error, out)
            if len(out) == before + 1 and type(delta := out[before]) is Delta:
                if not learning:
                    templates.fruitless += 1
                elif (count := len(self.context.losses)) != losses:
                    losses = count  # the next delta may have no loss
                elif (callback := self.follow(delta)) is not None and templates.learn(line, payload, delta):
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

    def event_name(self) -> str:
        """Return the name in the event line of the frame that is read, and record that its data lacked it."""
        line = self._event_line
        name = line if type(line) is str else line.decode("utf-8", "replace").partition(":")[2].strip()  # type: ignore[union-attr]
        if name:
            self.context.losses.add_once(
                LossCode.REPLY_REPAIRED, "type", "an event had its type in its event line only"
            )
        return name

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
            payload = unwrapped(reply_object(data, self.dialect, loads_exact), self.dialect)
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


def ignore_run(text: str, pieces: list[str]) -> bool:
    """The callback for blocks whose texts are only passed on."""
    return True
