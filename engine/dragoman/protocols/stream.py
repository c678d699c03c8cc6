"""What every stream reader and writer shares: the loop over a batch, and what becomes of an error in it.

An error never loses the part of a batch before it, so any split of the same bytes gives the same output.
"""

from __future__ import annotations

from typing import Any

from ..context import ReplyContext
from ..errors import DragomanError, UpstreamProtocolError
from ..events import Delta, End, Error, Event, Finish, Ping
from ..jsontext import loads
from ..sse import Frame


class StreamReader:
    """Frames to canonical events. A subclass reads one JSON payload at a time and says what an end of file means."""

    __slots__ = ("context", "done")

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False

    def feed(self, frames: list[Frame], /) -> list[Event]:
        """The events that follow from the frames. Faults are `Error` events; nothing is raised."""
        out: list[Event] = []
        frame = None
        try:
            for frame in frames:
                if self.done:
                    break
                if frame.data is None:
                    if frame.fault is not None:
                        raise frame.fault
                    out.append(Ping())
                else:
                    self.read(frame.data, out)
        except DragomanError as error:
            # Half a frame at the end of the file says nothing; what the end means is for `finish` to say.
            if frame is None or frame.whole:
                self.fail(error, out)
        return out

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

    __slots__ = ("context", "done")

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.done = False

    def feed(self, events: list[Event], /) -> list[Frame]:
        """The frames that follow from the events. What cannot be written is an in-band error; nothing is raised."""
        out: list[Frame] = []
        if self.done:
            return out
        try:
            for event in events:
                if type(event) is Delta:
                    self.delta(event, out)
                    continue
                self.write(event, out)
                if type(event) is Finish:
                    self.context.usage = event.usage
                elif type(event) is End:
                    if event.usage is not None:
                        self.context.usage = event.usage.over(self.context.usage)
                    self.done = True
                    break
                elif type(event) is Error:
                    self.done = True
                    break
        except DragomanError as error:
            event = Error(error.failure)
            self.write(event, out)
            self.done = True
        if self.done and type(event) is Error:
            self.context.failure = event.failure
        return out

    def finish(self) -> list[Frame]:
        """Nothing is held back: every reader ends its stream with `End` or `Error`."""
        return []

    def delta(self, event: Delta, out: list[Frame]) -> None:
        """Write the event that nearly all of a stream consists of; may raise DragomanError."""
        raise NotImplementedError

    def write(self, event: Event, out: list[Frame]) -> None:
        """Write any other event; may raise DragomanError for one that the dialect cannot carry."""
        raise NotImplementedError
