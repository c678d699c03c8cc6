"""Stages: the synchronous steps of a streamed reply, and their order in a pipeline.

A stage awaits nothing, reads no clock and logs nothing. A batch is what one read from the network yielded: each stage
turns a batch into at most one batch, and the last one into one `bytes` object, which is one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dragoman.canonical.events import Event
from dragoman.short_repr import short_repr
from dragoman.wire.sse import FrameBatch

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
        """Processes a batch and returns the resulting one, which may be empty."""
        ...

    def finish(self) -> Out:
        """Returns what was held back. Called at most once, after the source ended and unless the stage is done."""
        ...


EventBatch = list[Event]
"""The canonical events of one batch."""


@dataclass(slots=True)
class ReplyPipeline:
    """The stages of one translated stream, in the order in which its bytes pass them."""

    parser: Stage[bytes, FrameBatch]
    """Splits the upstream's bytes into frames."""
    reader: Stage[FrameBatch, EventBatch]
    """Reads the upstream dialect's frames as canonical events."""
    transforms: Sequence[Stage[EventBatch, EventBatch]]
    """Change the events: restore bridged tools, cut at stop sequences."""
    writer: Stage[EventBatch, FrameBatch]
    """Writes the events as frames of the client's dialect."""
    encoder: Stage[FrameBatch, bytes]
    """Encodes the frames, and validates them if the translation does."""

    def __repr__(self) -> str:
        return short_repr(self, type(self.reader).__name__, type(self.writer).__name__)


def transform(
    stages: Sequence[Stage[EventBatch, EventBatch]], events: EventBatch, *, ended: bool
) -> tuple[EventBatch, bool]:
    """Passes events through `stages`, and finishes those after the one that is done, or all if none follow (`ended`).

    Returns the resulting events, and True if they are the last.
    """
    for stage in stages:
        if events:
            events = stage.feed(events)
        if ended and not stage.done:
            events = events + stage.finish()
        ended = ended or stage.done
    return events, ended


class TransformingWriter:
    """A writer and the transforms before it, as one stage."""

    __slots__ = ("_transforms", "_writer", "done")

    def __init__(
        self, transforms: Sequence[Stage[EventBatch, EventBatch]], writer: Stage[EventBatch, FrameBatch]
    ) -> None:
        self._transforms, self._writer = transforms, writer
        self.done = False

    def feed(self, events: EventBatch, /) -> FrameBatch:
        """Returns the frames of the transformed events."""
        return self._write(events, ended=False)

    def finish(self) -> FrameBatch:
        """Returns the frames of the events that the transforms held back."""
        return self._write([], ended=True)

    def _write(self, events: EventBatch, *, ended: bool) -> FrameBatch:
        events, ended = transform(self._transforms, events, ended=ended)
        frames = self._writer.feed(events) if events else []
        if ended and not self._writer.done:
            frames = frames or self._writer.finish()
        self.done = ended or self._writer.done
        return frames
