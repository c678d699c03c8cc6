"""The complete frames of a forwarded stream: each is observed, and forwarded unless something takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.canonical.events import Delta
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload
from dragoman.errors import DragomanError, Failure, StreamTruncated
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.stages.client_frames import ClientFrames
from dragoman.stages.observer import Observer
from dragoman.wire.body_opening import BOM
from dragoman.wire.delta_template import DeltaTemplate, TemplateCache
from dragoman.wire.frame_scanner import (
    LONG,
    USUAL_FRAME,
    Edit,
    after_line_ends,
    event_of,
    exceeded_limit,
    frame_end,
    long_frame,
    parse_frame,
)
from dragoman.wire.json_codec import loads
from dragoman.wire.sse import CR, LF, Frame, encode, is_blank


class ForwardedFrames:
    """Observes the complete frames of one stream. A template reads most of them without parsing their JSON."""

    __slots__ = (
        "_client",
        "_context",
        "_replay",
        "begun",
        "deltas",
        "first",
        "held",
        "numbered",
        "observer",
        "replayed",
        "templates",
    )

    def __init__(
        self, observer: Observer, client: ClientFrames, context: ReplyContext, replay: Callable[[bytes], bytes]
    ) -> None:
        """`replay` returns the stream of a complete reply, and raises DragomanError."""
        self.observer = observer
        self._client = client
        self._context = context
        self._replay = replay
        self.templates = TemplateCache(observer.varying_keys)
        self.begun = False
        """True once an event was forwarded."""
        self.replayed = False
        """True if the stream is that of a complete reply: its results are in the reply's context."""
        self.deltas = 0
        """The number of texts so far. Each is at least a token."""
        self.numbered = False
        """True once a frame with an id was forwarded."""
        self.first = True
        """True until something was read: a byte order mark may follow."""
        self.held = b""
        """A frame of which the next one shows if clients can read it."""

    def observe(self, data: bytes, edits: list[Edit]) -> tuple[int, Failure | None]:
        """Observe complete frames, and add replacements of frames to `edits`.

        Return the end of the frames to forward, and the fault of the frame after them. If the observer is `odd`, the
        rest is to be translated, after the frame that is `held`.
        """
        observer, templates, size, limits = self.observer, self.templates, len(data), self._context.limits
        measured = size > limits.sse_line or size > limits.sse_frame  # a frame may be too long
        odd = CR in data
        at, usual_frame = 0, Frame("", None)  # one for all usual frames, as nothing keeps them
        usual_frames = (usual_frame,)
        while at < size:
            if (first := data[at]) == LF or first == CR:
                at = after_line_ends(data, at)
                self.first = False
                continue
            template = templates.template
            if template is not None and not measured and self.observe_run(template, data, at):
                at = template.end
                continue
            if odd:
                usual = None
            else:
                usual = USUAL_FRAME.match(data, at) if size - at < LONG else long_frame(data, at)
            stop, end = frame_end(data, at, odd) if usual is None else (usual.end(2), usual.end())
            if measured and (fault := exceeded_limit(data[at:stop], limits)) is not None:
                return at, fault
            frames: Sequence[Frame]
            if usual is None:
                frames = self._parse(data[at:end])
            else:
                frames = usual_frames
                line, usual_frame.data = usual.groups()
                usual_frame.event = event_of(line) if line else ""
            self.first = False
            for frame in frames:
                if frame.fault is not None:
                    return at, frame.fault.failure
                if frame.data is None:
                    if len(frames) == 1 and (other := observer.instead_of_comment()) is not None:
                        edits.append((at, end, other))
                    continue
                if len(frame.data) < 8 and is_blank(frame.data):  # longer data is not blank
                    edits.append((at, end, b""))
                    continue
                if frame.bare and is_ignored(frame.data):
                    continue
                if (fault := self.observe_frame(frame, at, stop, end, edits)) is not None:
                    return at, fault
                if observer.odd:
                    return at, None
                if observer.holds:
                    observer.holds = False
                    is_other = bool(edits) and edits[-1][:2] == (at, end)  # it is sent in another form
                    self.held = edits.pop()[2] if is_other else encode(frame) if odd else data[at:end]
                    templates.template = None  # the next frame is observed
                    edits.append((at, end, b""))
                if observer.closed or self.replayed:
                    return end, None
                if type(text := observer.sole_text) is str and text:
                    self.deltas += 1
                    if usual is None or self.held:
                        continue
                    learnt = templates.learn(usual[1], frame.data, Delta(0, text))
                    if learnt and self._client.renamer is not None:
                        self._note_heads(frame.data)
            at = end
        return at, None

    def observe_run(self, template: DeltaTemplate, data: bytes, at: int) -> bool:
        """Observe the frames from `at` on that fit the template, up to `template.end`. Return whether there are any."""
        observer, run = self.observer, template.run(data, at)
        if run is None or (observer.on_run is not None and not observer.on_run(run.text, run.pieces)):
            return False
        count = len(run.pieces)
        self.templates.fruitless = 0
        self.deltas += count
        observer.written += len(run.text)
        if observer.numbers_frames:
            observer.on_template(count, template.last_number())
        self.begun = observer.progressed = True
        return True

    def take_held(self) -> bytes:
        """Return the frame that is held, b"" without one. It is held no longer."""
        held, self.held = self.held, b""
        return held

    def _parse(self, data: bytes) -> Sequence[Frame]:
        """Return the frames of an unusual frame. The first one may begin with a byte order mark."""
        return parse_frame(data.removeprefix(BOM) if self.first else data, self._context.limits)

    def observe_frame(self, frame: Frame, at: int, stop: int, end: int, edits: list[Edit]) -> Failure | None:
        """Observe a frame with data, at these places, and add what takes its place to `edits`, if anything does.

        Return the fault by which the stream ends before the frame. It ends after it if the observer is closed, or the
        stream is that of a complete reply.
        """
        observer = self.observer
        assert frame.data is not None
        self.templates.template = None
        if frame.id is not None:
            self.numbered = True
        if frame.bare:
            observer.refuse(read_error_payload(loads(frame.data), observer.dialect))
        else:
            observer.observe(frame.data, frame.event)
            if observer.odd:
                return None
            if self.held:
                self._settle(at, edits)
        if observer.whole is not None:
            replayed, fault = self.replay(observer.whole or frame.data)
            edits.append((at, end, replayed))
            return fault
        if observer.fault is not None:
            return observer.fault
        if observer.instead is not None:
            edits.append((at, end, self._instead()))
        elif observer.failure is not None and (clean := self._client.redacted(frame)) is not None:
            edits.append((at, stop, clean[:-2]))  # its blank line stays
        if observer.closed and not observer.complete and observer.failure is None:
            return StreamTruncated().failure  # the client would take the reply for complete
        self.begun = True
        return None

    def _settle(self, at: int, edits: list[Edit]) -> None:
        """Forward the frame that is held before the one at this place, unless that takes its place or is harmless."""
        if self.observer.harmless:
            self.observer.harmless = False
            return
        held = self.take_held()
        if self.observer.settle():
            edits.append((at, at, held))

    def _instead(self) -> bytes:
        """Return the frames that take the place of the last one."""
        observer = self.observer
        instead, observer.instead = observer.instead, None
        if observer.repair:
            self._context.losses.add_once(LossCode.REPLY_REPAIRED, "", observer.repair)
        assert instead is not None
        return instead

    def _note_heads(self, data: bytes) -> None:
        """Note the heads of the frames that fit the template, one of which has this data."""
        templates = self.templates
        assert templates.template is not None
        if not self._client.note_heads(templates.template, data):
            templates.template = None

    def replay(self, reply: bytes) -> tuple[bytes, Failure | None]:
        """Return the stream of a complete reply, or nothing and a failure."""
        try:
            written = self._replay(reply)
        except DragomanError as error:
            return b"", error.failure
        self.begun = self.replayed = True
        return written, None


def is_ignored(data: bytes) -> bool:
    """Return whether JSON without a field name is no error: clients ignore it."""
    return not reports_error(loads(data))
