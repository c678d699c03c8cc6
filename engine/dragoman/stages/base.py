"""Stages: the synchronous steps of a streamed reply, and their order in a pipeline.

A stage awaits nothing, reads no clock and logs nothing. A batch is what one read from the network yielded: each stage
turns a batch into at most one batch. The last one is the writer: what sends the frames encodes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from dragoman.canonical.events import TEXTS, BlockEnd, BlockStart, Error, Event, Ping, TextRun
from dragoman.errors import Failure
from dragoman.short_repr import short_repr
from dragoman.wire.sse import COMMENT, FrameBatch, encode_frames

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)


class Stage(Protocol[In, Out]):
    """One step of a streamed reply: takes batches of one type and returns batches of another."""

    @property
    def done(self) -> bool:
        """True once the last batch was returned: no more may be fed, and the source need not be read any further.

        So the client's body ends with the terminal event and not when the upstream closes its connection.
        """
        ...

    def feed(self, batch: In, /) -> Out:
        """Process a batch and return the resulting one, which may be empty."""
        ...

    def finish(self) -> Out:
        """Return what was held back. Called at most once, after the source ended and unless the stage is done."""
        ...


EventBatch = list[Event]
"""The canonical events of one batch."""


class StreamDriver(Protocol):
    """Drives the stages of one streamed reply: the upstream's bytes in, frames for the client out.

    It raises nothing for what the upstream sends: an invalid or truncated stream ends in an in-band error.
    """

    @property
    def done(self) -> bool:
        """True once the last frames were returned: nothing more may be fed."""
        ...

    def feed(self, data: bytes, /) -> FrameBatch:
        """Return the frames that the next bytes complete."""
        ...

    def finish(self) -> FrameBatch:
        """Return the last frames, as the upstream's body has ended."""
        ...

    def fail(self, failure: Failure, /) -> FrameBatch:
        """End the stream and return its last frames, which are an in-band error; nothing if it has ended.

        What the stages hold back is dropped, as the reply will not be complete.
        """
        ...


class ReplyPipeline:
    """The stages of one translated stream, in the order in which its bytes pass them, and their `StreamDriver`."""

    __slots__ = (
        "_calls",
        "_direct",
        "done",
        "ended",
        "parser",
        "progressed",
        "reader",
        "tool_open",
        "transforms",
        "validator",
        "writer",
    )

    def __init__(
        self,
        parser: Stage[bytes, FrameBatch],
        reader: Stage[FrameBatch, EventBatch],
        transforms: Sequence[Stage[EventBatch, EventBatch]],
        writer: Stage[EventBatch, FrameBatch],
        validator: Stage[FrameBatch, FrameBatch] | None = None,
    ) -> None:
        self.parser = parser
        """Splits the upstream's bytes into frames."""
        self.reader = reader
        """Reads the upstream dialect's frames as canonical events."""
        self.transforms = transforms
        """Change the events: restore bridged tools, cut at stop sequences."""
        self.writer = writer
        """Writes the events as frames of the client's dialect."""
        self.validator = validator
        """Checks the frames, if the stream is validated."""
        self.ended = False
        """True once the last events were read."""
        self.done = False
        """True once the last frames were written."""
        self.tool_open = False
        """True while a tool call is open."""
        self.progressed = False
        """Set to True by each text of an open tool call, and by its start. The caller resets it."""
        self._direct = TextRun if not transforms and validator is None else None
        """The type of an event that only the writer gets, if it is alone in its batch."""
        self._calls: set[int] | None = None
        """The block indexes of open tool calls; None before the first."""

    def __repr__(self) -> str:
        return short_repr(self, type(self.reader).__name__, type(self.writer).__name__)

    def read(self, data: bytes, /) -> EventBatch:
        """Return the events that the next bytes complete, as the writer gets them."""
        return self._transform(self.reader.feed(self.parser.feed(data)), ended=self.reader.done)

    def read_end(self) -> EventBatch:
        """Return the last events, as the upstream's body has ended."""
        parser, reader = self.parser, self.reader
        events: EventBatch = []
        if not parser.done and (frames := parser.finish()):
            events = reader.feed(frames)
        if not reader.done:
            events = events + reader.finish()
        return self._transform(events, ended=True)

    def write(self, events: EventBatch, /) -> FrameBatch:
        """Return the frames of events that were read."""
        writer = self.writer
        frames = writer.feed(events)
        if self.validator is not None:
            self.validator.feed(frames)
        if self.ended or writer.done:
            self.done = True
            if self.validator is not None:
                self.validator.finish()
        return frames

    def feed(self, data: bytes, /) -> FrameBatch:
        """Return the client's frames for the next bytes."""
        events = self.reader.feed(self.parser.feed(data))
        if len(events) == 1 and type(events[0]) is self._direct:  # nearly all batches
            if self.tool_open:
                self.progressed = True
            writer = self.writer
            frames = writer.feed(events)
            self.done = writer.done
            return frames
        events = self._transform(events, ended=self.reader.done)
        return self.write(events) if events or self.ended else []

    def finish(self) -> FrameBatch:
        """Return the last frames, as the upstream's body has ended."""
        return self.write(self.read_end())

    def fail(self, failure: Failure, /) -> FrameBatch:
        """End the stream in an error, and return its last frames; nothing if it has ended."""
        return [] if self.done else self.write([Error(failure)])

    def heartbeat(self) -> bytes:
        """Return a heartbeat for the state of the stream, as an encoded frame."""
        frames = self.writer.feed([Ping()])
        if self.validator is not None:
            self.validator.feed(frames)
        return encode_frames(frames) or COMMENT

    def _transform(self, events: EventBatch, *, ended: bool) -> EventBatch:
        """Note which tool calls are open, and pass events through the transforms.

        Those after one that is done are finished, or all if no events follow.
        """
        calls = self._calls
        for event in events:
            if type(event) is BlockStart:
                if event.kind == "tool":
                    if calls is None:
                        calls = self._calls = set()
                    calls.add(event.index)
                    self.progressed = True
            elif calls:
                if type(event) in TEXTS:
                    self.progressed = True
                elif type(event) is BlockEnd:
                    calls.discard(event.index)
        self.tool_open = bool(calls)
        for stage in self.transforms:
            if events:
                events = stage.feed(events)
            if ended and not stage.done:
                events = events + stage.finish()
            ended = ended or stage.done
        self.ended = ended
        return events
