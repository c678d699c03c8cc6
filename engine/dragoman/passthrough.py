"""Same dialect on both sides: bytes go through untouched, with an observer beside them.

Only whole frames are forwarded, so that a cut in the middle of one can still end in a well-formed error of the dialect.
A stream that ends without its terminal event is given that error: the official SDKs would otherwise take it for whole.
"""

from __future__ import annotations

import re

from .errors import Failure, LimitExceeded, StreamTruncated
from .events import Usage
from .jsontext import loads
from .limits import DEFAULT, Limits
from .model import Json
from .splice import Renamer
from .sse import Frame, Parser, encode


class Observer:
    """Watches the frames of one stream of its dialect; a subclass per dialect knows the grammar.

    `complete` turns true when the stream may end; `closed` when nothing more can follow (closed without being complete:
    the terminal frame came too early); `failure` holds an error that the upstream sent in-band; `violations` are
    breaches of the dialect's grammar, in words.
    """

    __slots__ = ("closed", "complete", "failure", "usage", "violations")

    def __init__(self) -> None:
        self.complete = False
        self.closed = False
        self.usage: Usage | None = None
        self.failure: Failure | None = None
        self.violations: list[str] = []

    def observe(self, data: bytes, event: str) -> None:
        """Take one frame's data."""
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

    __slots__ = ("_held", "_limits", "_parser", "_renamer", "_request_id", "begun", "done", "fault", "observer")

    def __init__(
        self,
        observer: Observer,
        renamer: Renamer | None = None,
        limits: Limits = DEFAULT,
        request_id: str | None = None,
    ) -> None:
        self.done = self.begun = False
        self.fault: Failure | None = None
        self.observer = observer
        self._parser = Parser(limits)
        self._renamer = renamer
        self._limits = limits
        self._request_id = request_id
        self._held = b""

    def feed(self, data: bytes, /) -> bytes:
        """The frames that `data` completes, byte for byte (but for a renamed model); nothing after the terminal one."""
        observer = self.observer
        fault: Failure | None = None
        frames = 0
        for frame in self._parser.feed(data):
            if frame.data is not None:
                frames += 1
                observer.observe(frame.data, frame.event)
                if observer.closed:
                    break
            elif frame.fault is not None:
                fault = frame.fault.failure
        data = self._held + data if self._held else data
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
        whole, self._held = data[:cut], data[cut:]
        if len(self._held) > self._limits.sse_frame and not self.done:
            self.done = True
            fault = LimitExceeded("sse_frame", self._limits.sse_frame, upstream=True).failure
        if frames:
            self.begun = True
        if self._renamer is not None and whole:
            whole = self._rename(whole)
        if self.done:
            self._held = b""
            if whole.endswith(b"\n\r"):  # the second half of a CR LF that is still on its way
                whole += b"\n"
        if fault is not None:
            whole += self.error(fault)
        return whole

    def finish(self) -> bytes:
        """The rest; and the dialect's error if the stream was not complete."""
        observer = self.observer
        sound = len(observer.violations)
        for frame in self._parser.finish():
            if frame.data is not None:
                self.begun = True
                observer.observe(frame.data, frame.event)
        held, self._held = self._held, b""
        if observer.failure is not None or observer.complete:
            if len(observer.violations) > sound:
                return b""  # half a frame behind the end: no client could read it
            return self._rename(held) if self._renamer is not None else held
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
