"""Same dialect on both sides: bytes go through untouched, with an observer beside them.

Only whole frames are forwarded, so that a cut in the middle of one can still end in a well-formed error of the dialect.
A stream that ends without its terminal event is given that error: the official SDKs would otherwise take it for whole.
"""

from __future__ import annotations

import re
from typing import ClassVar

from .errors import Failure, LimitExceeded, StreamTruncated
from .events import Delta, Usage
from .groove import Ear, Volatile
from .jsontext import loads
from .limits import DEFAULT, Limits
from .losses import Code, Losses
from .model import Json
from .splice import Renamer
from .sse import Frame, Parser, encode, frame_at


class Observer:
    """Watches the frames of one stream of its dialect; a subclass per dialect knows the grammar.

    `complete` turns true when the stream may end; `closed` when nothing more can follow (closed without being complete:
    the terminal frame came too early); `failure` holds an error that the upstream sent in-band; `violations` are
    breaches of the dialect's grammar, in words.
    """

    __slots__ = ("calling", "closed", "complete", "failure", "lenient", "moved", "said", "usage", "violations")

    volatile: ClassVar[Volatile] = Volatile()
    """What changes in this dialect's deltas besides their text."""

    def __init__(self) -> None:
        self.said: str | None = None
        """The text of the frame observed last, if that was all of it and nothing hangs on which text it is."""
        self.calling = False
        """Is a tool call open."""
        self.moved = False
        """Was anything said since whoever asks set it back: signs of life are no progress (mapping §9.8)."""
        self.complete = False
        self.closed = False
        self.lenient = False
        """Is the server known to leave the terminal event out (profile `message_stop`)."""
        self.usage: Usage | None = None
        self.failure: Failure | None = None
        self.violations: list[str] = []

    def observe(self, data: bytes, event: str) -> None:
        """Take one frame's data."""
        self.said = None
        if self.closed:
            return self.violation("a frame after the end")
        try:
            payload = loads(data)
        except ValueError:
            return self.violation("a frame that is not JSON")
        if type(payload) is not dict:
            return self.violation("a frame that is not a JSON object")
        self.watch(payload, event)

    def watch(self, payload: Json, event: str) -> None:
        """Take one frame's JSON object."""
        raise NotImplementedError

    def follow(self, count: int, number: int) -> None:
        """Take `count` more frames like the last one, which held only other texts. `number` is the last one's."""

    def left_out(self) -> Frame | None:
        """The terminal event, where it is all that the server left out of its stream and is known to."""
        return None

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """An in-band error of the dialect."""
        raise NotImplementedError

    def violation(self, what: str) -> None:
        """Note a breach of the grammar; only the first few are kept."""
        if len(self.violations) < 8:
            self.violations.append(what)


_ENDS = (b"\n\n", b"\n\r\n", b"\n\r", b"\r\r")
_BOM_DATA = b"\xef\xbb\xbfdata:"
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


class Passthrough:
    """Same dialect on both sides: bytes go through untouched, with an observer beside them.

    `begun` turns true with the first event that is no sign of life; `fault` is the error that the stage itself found.
    """

    __slots__ = (
        "_ear",
        "_heads",
        "_held",
        "_limits",
        "_losses",
        "_parser",
        "_renamer",
        "_request_id",
        "begun",
        "done",
        "fault",
        "observer",
    )

    def __init__(
        self,
        observer: Observer,
        renamer: Renamer | None = None,
        limits: Limits = DEFAULT,
        request_id: str | None = None,
        losses: Losses | None = None,
    ) -> None:
        self.done = self.begun = False
        self.fault: Failure | None = None
        self.observer = observer
        self._parser = Parser(limits, whole=True)
        self._ear = Ear(observer.volatile)
        self._heads: tuple[bytes, bytes] | None = None
        """What the frames of the groove begin with, and what with the model's name put back."""
        self._renamer = renamer
        self._limits = limits
        self._request_id = request_id
        self._losses = losses
        self._held = bytearray()
        """The bytes of a frame that is not whole."""

    def feed(self, data: bytes, /) -> bytes:
        """The frames that `data` completes, byte for byte (but for a renamed model); nothing after the terminal one."""
        observer = self.observer
        fault: Failure | None = None
        frames = 0
        parsed = self._parser.feed(data)
        if isinstance(parsed, bytes):
            frames = self._observe_whole(parsed)
            if frames < 0 and not self._held:
                return data if self._heads is None else data.replace(*self._heads)
            frames = abs(frames)
            parsed = ()
        for frame in parsed:
            if isinstance(frame, bytes):
                frames += abs(self._observe_whole(frame))
            elif frame.data is not None:
                self._ear.groove = None
                frames += 1
                observer.observe(frame.data, frame.event)
            elif frame.fault is not None:
                fault = frame.fault.failure
            if observer.closed:
                break
        if self._held:
            begin = len(self._held)
            self._held += data
            if fault is None and not observer.closed and not self._ends_behind(begin):
                data = b""  # a long frame that comes in many pieces is not searched again for each
            else:
                data = bytes(self._held)
                self._held.clear()
        if fault is not None or observer.closed:
            self.done = True
            if fault is None and not observer.complete and observer.failure is None:
                fault = StreamTruncated().failure
                frames -= 1  # a terminal frame that came too early: the client would take the reply for whole
            cut = _end_of_frame(data, frames)
        elif data.endswith(b"\n\n"):
            cut = len(data)
        else:
            cut = max((at + len(end) for end in _ENDS if (at := data.rfind(end)) >= 0), default=0)
        whole = data[:cut]
        self._held += data[cut:]
        if len(self._held) > self._limits.sse_frame and not self.done:
            self.done = True
            fault = LimitExceeded("sse_frame", self._limits.sse_frame, upstream=True).failure
        if frames:
            self.begun = True
        if self._renamer is not None and whole:
            whole = self._rename(whole)
        if self.done:
            self._held.clear()
            if whole.endswith(b"\n\r"):  # the second half of a CR LF that is still on its way
                whole += b"\n"
        if fault is not None:
            whole += self.error(fault)
        return whole

    def _ends_behind(self, begin: int) -> bool:
        """Whether a frame ends in the held bytes from `begin` on. Its end may begin up to two bytes before."""
        begin = max(0, begin - 2)
        return any(self._held.find(end, begin) >= 0 for end in _ENDS)

    def _observe_whole(self, data: bytes) -> int:
        """Observe whole frames, and give how many; less than nothing if they are one run of texts."""
        observer, ear, at, frames = self.observer, self._ear, 0, 0
        while at < len(data) and not observer.closed:
            if (groove := ear.groove) is not None and (run := ear.run(data, at)) is not None:
                observer.follow(len(run.texts), groove.last_number())
                self.begun = observer.moved = True
                if not at and groove.end == len(data):
                    return -len(run.texts)
                frames += len(run.texts)
                at = groove.end
                continue
            found, at = frame_at(data, at, self._limits)
            for frame in found:
                if frame.data is not None:
                    frames += 1
                    observer.observe(frame.data, frame.event)
                    if observer.closed:
                        break
            if len(found) == 1 and found[0].data is not None and type(said := observer.said) is str and said:
                ear.learn(found[0], Delta(0, said))
                self._note_heads()
        return frames

    def _note_heads(self) -> None:
        self._heads = None
        if self._renamer is not None and self._ear.groove is not None:
            before = self._ear.groove.before
            name, mark, payload = before.partition(b"data: ")
            renamed = self._renamer.apply(payload)
            if renamed is not payload:
                self._heads = before, name + mark + renamed

    def finish(self) -> bytes:
        """The rest; and the dialect's error if the stream was not complete."""
        observer = self.observer
        sound = len(observer.violations)
        for frame in self._parser.finish():
            if frame.data is not None:
                self.begun = True
                observer.observe(frame.data, frame.event)
        held = bytes(self._held)
        self._held.clear()
        if observer.failure is not None or observer.complete:
            if len(observer.violations) > sound:
                return b""  # half a frame behind the end: no client could read it
            return self._rename(held) if self._renamer is not None else held
        end = observer.left_out() if not held else None
        if end is not None:
            observer.complete = True
            if self._losses is not None:
                self._losses.once(Code.REPLY_REPAIRED, end.event, f"the stream ended without {end.event}")
            return encode(end)
        return self.error(StreamTruncated().failure)

    def error(self, failure: Failure) -> bytes:
        """An in-band error that ends the stream."""
        self.fault = failure
        data = encode(self.observer.error_frame(failure, self._request_id))
        return self._rename(data) if self._renamer is not None else data  # a snapshot in it names the model

    def _rename(self, data: bytes) -> bytes:
        """Whole frames with the model's name put back. A frame's data may be on several lines."""
        assert self._renamer is not None
        lines = data.split(b"\n")
        frame: list[int] = []
        for number, line in enumerate(lines):
            if line.startswith((b"data:", _BOM_DATA)):
                frame.append(number)
            elif frame and line in (b"", b"\r"):
                self._rename_frame(lines, frame)
                frame = []
        if frame:
            self._rename_frame(lines, frame)
        return b"\n".join(lines)

    def _rename_frame(self, lines: list[bytes], numbers: list[int]) -> None:
        assert self._renamer is not None
        cuts = [8 if lines[number].startswith(_BOM_DATA) else 5 for number in numbers]
        payload = b"\n".join([lines[number][cut:] for number, cut in zip(numbers, cuts, strict=True)])
        renamed = self._renamer.apply(payload)
        if renamed is not payload:
            for number, cut, line in zip(numbers, cuts, renamed.split(b"\n"), strict=True):
                lines[number] = lines[number][:cut] + line


def _end_of_frame(data: bytes, count: int) -> int:
    """Where the frame number `count` of `data` ends, its blank line included; 0 for none."""
    parser = Parser()
    start = 0
    for blank in _BLANK_LINE.finditer(data):
        if not count:
            break
        count -= sum(frame.data is not None for frame in parser.feed(data[start : blank.end()]))
        start = blank.end()
    return start
