"""The events of a stream that outlives its client: they are kept in memory, and read any number of times.

`LoggedStream` takes the place of `DownstreamResponse`. It waits for no reader: the log has a limit, and drops its
oldest events beyond it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Self, cast

from dragoman.aio.downstream.frame_sink import FrameSink
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.trampoline import PARKED
from dragoman.stages.base import StreamDriver
from dragoman.wire.sse import FrameBatch
from dragoman.wire.sse_parser import encoded_frames, is_plain

_UNUSED = 256
"""Dropped frames up to which the list is not made shorter."""
_STEP = 4096
"""Most bytes of an open log that are not counted in its budget yet; a 4096th of the budget's limit if that is less."""


class LogBudget:
    """The bytes that several logs keep, at most `limit`; `used` are those that they keep now.

    Above the limit, the log that ended first drops everything; if none has ended, a log drops its oldest events when it
    adds one. Owners may count other bytes too. What is counted here is also counted in `whole`, the budget of several.
    """

    def __init__(self, limit: int, whole: LogBudget | None = None) -> None:
        self.limit = limit
        self.used = 0
        self._whole = whole
        self._ended: OrderedDict[EventLog, int] = OrderedDict()
        """With the bytes that each log keeps."""
        self._ended_bytes = 0

    @property
    def exceeded(self) -> bool:
        """True if more than the limit is kept."""
        return self.used > self.limit or (self._whole is not None and self._whole.exceeded)

    def has_room(self, size: int) -> bool:
        """True if so many more bytes can be kept when logs that have ended are dropped."""
        fits = self.used - self._ended_bytes + size <= self.limit
        return fits and (self._whole is None or self._whole.has_room(size))

    def spend(self, size: int) -> bool:
        """Count `size` bytes more, or less if it is negative. Return `exceeded`."""
        self.used += size
        whole = self._whole
        is_exceeded = whole is not None and whole.spend(size)
        if self.used <= self.limit:
            return is_exceeded
        while self.used > self.limit and self._ended:
            next(iter(self._ended)).clear()
        return self.exceeded

    def add_ended(self, log: EventLog) -> None:
        """Record that a log has ended."""
        self.forget(log)
        self._ended[log] = log.size
        self._ended_bytes += log.size
        if self._whole is not None:
            self._whole.add_ended(log)
        self.spend(0)

    def forget(self, log: EventLog) -> None:
        """Stop tracking a log that keeps nothing, or must not be dropped."""
        self._ended_bytes -= self._ended.pop(log, 0)
        if self._whole is not None:
            self._whole.forget(log)


class EventLog:
    """The events of one stream, as SSE frames, numbered from 0.

    At most `limit` bytes are kept, and always the last event until the log has ended. `budget` is that of several logs,
    if they have one.
    """

    def __init__(self, limit: int, budget: LogBudget | None = None) -> None:
        self._limit = limit
        self._budget = budget
        self._frames: list[bytes] = []
        self._dropped = 0
        """Frames at the start of the list that are dropped already; they are removed many at a time."""
        self._size = self._counted = 0
        """Bytes that are kept, and those of them that are counted in the budget."""
        self._step = min(budget.limit // _STEP, _STEP) if budget is not None else limit
        self._room = min(limit, self._step)
        """The size up to which an event is added without a look at the limits."""
        self._tails: tuple[LogTail, ...] = ()
        self.first = 0
        """The number of the oldest event that is kept."""
        self.end = 0
        """The number of the next event."""
        self.written = 0
        """Bytes of all events so far."""
        self.seen = 0
        """Those of the events up to the one that a reader has read last."""
        self.closed = False
        self._held = False

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def append(self, frame: bytes) -> None:
        """Add an event, unless the log has ended."""
        if self.closed:
            return
        self._frames.append(frame)
        self.written += len(frame)
        self.end += 1
        size = self._size = self._size + len(frame)
        if size > self._room and (self._count() or size > self._limit):
            self._drop()
        for tail in self._tails:
            # A reader that waits has sent all events before this one.
            if tail.waits and tail.write_now(frame):
                tail.number, self.seen = self.end, self.written
            else:
                tail.wake()

    def _count(self) -> bool:
        """Count what is kept in the budget. Return True if it is exceeded."""
        size = self._size
        more, self._counted = size - self._counted, size
        self._room = min(self._limit, size + self._step)
        return self._budget is not None and self._budget.spend(more)

    def _drop(self) -> None:
        """Drop the oldest events, until what is left is within the limits."""
        budget = self._budget
        while self._dropped < len(self._frames) - 1 and (
            self._size > self._limit or (budget is not None and budget.exceeded)
        ):
            self._size -= len(self._frames[self._dropped])
            self._count()
            self._frames[self._dropped] = b""
            self._dropped += 1
            self.first += 1
        if self._dropped > _UNUSED and self._dropped * 2 > len(self._frames):
            del self._frames[: self._dropped]
            self._dropped = 0

    def close(self) -> None:
        """End the log: no event follows."""
        if not self.closed:
            self.closed = True
            self._count()
            self._offer()
        self.wake()

    def hold(self) -> None:
        """Let nothing be dropped for other logs once the log has ended: a reader needs it."""
        self._held = True
        if self._budget is not None:
            self._budget.forget(self)

    def release(self) -> None:
        """End `hold`."""
        self._held = False
        self._offer()

    def _offer(self) -> None:
        """Let the log be dropped for others if it has ended."""
        if self._budget is not None and self._size and self.closed and not self._held:
            self._budget.add_ended(self)

    def clear(self) -> None:
        """Drop all events."""
        self.first = self.end
        self._frames.clear()
        self._dropped = self._size = 0
        if self._budget is not None:
            self._budget.forget(self)
        self._count()

    def has(self, number: int) -> bool:
        """True if the events from this one on can be read: they are kept, or still to come."""
        return self.first <= number <= self.end

    def read(self, number: int) -> bytes:
        """Return all events from this one on, which must be kept."""
        return self._frames[-1] if number == self.end - 1 else b"".join(self.frames(number))

    def frames(self, number: int) -> list[bytes]:
        """Return the frames of these events."""
        return self._frames[self._dropped + number - self.first :]

    def add_tail(self, tail: LogTail) -> None:
        """Wake a reader from now on."""
        self._tails += (tail,)

    def remove_tail(self, tail: LogTail) -> None:
        """Wake a reader no longer."""
        self._tails = tuple(each for each in self._tails if each is not tail)

    def wake(self) -> None:
        """Let the readers look for events, for the end, or for what else they wait for."""
        for tail in self._tails:
            tail.wake()


class LogTail:
    """One reader of a log, as long as its `with` lasts: it waits for events that are added. Its next one is `number`.

    `on_arrival` is that of a `PushedResponse`: a reader in an `InlineTask` goes on within the call that adds an event.
    """

    __slots__ = ("_future", "_log", "_resume", "number", "waits", "write_now")

    def __init__(self, log: EventLog, number: int = 0) -> None:
        self._log = log
        self.number = number
        self.waits = False
        """True while it waits, and events may be written by `write_now`."""
        self.write_now: Callable[[bytes], bool] = _cannot_write
        """Sends an event within the call that adds it; False if it must be read."""
        self._resume: Callable[[], None] | None = None
        self._future: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self._log.add_tail(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.remove_tail(self)

    def on_arrival(self, resume: Callable[[], None] | None, /) -> None:
        """Set the callback that resumes the reader; None for a reader in a task."""
        self._resume = resume

    def read(self) -> bytes:
        """Return all events from its next one on. There is one, and they are kept."""
        log, number = self._log, self.number
        self.number, log.seen = log.end, log.written
        return log.read(number)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until the log has changed. It may not have what the reader waits for."""
        self.waits = True
        if self._resume is not None:
            return cast("Generator[Any, None, None]", PARKED.__await__())
        self._future = asyncio.get_running_loop().create_future()
        return self._future.__await__()

    def wake(self) -> None:
        """Let the reader go on."""
        self.waits = False
        if self._resume is not None:
            self._resume()
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)


def _cannot_write(_: bytes) -> bool:
    return False


class LogSink(FrameSink):
    """The base of what writes a stream to a log, whose batches wait for no client."""

    __slots__ = ("_log",)

    direct = True

    def __init__(self, log: EventLog, timers: StreamTimers) -> None:
        super().__init__(timers)
        self._log = log

    async def send_body(self, frames: AsyncGenerator[FrameBatch, None], driver: StreamDriver) -> None:
        """Add all frames to the log. Raises the errors of `frames`."""
        async for batch in frames:
            for frame in (batch,) if type(batch) is bytes and is_plain(batch) else encoded_frames(batch):
                if (waiting := self.add(frame)) is not None:
                    await waiting

    async def write(self, frames: FrameBatch) -> None:
        """Add complete frames; comments are dropped."""
        for frame in encoded_frames(frames):
            if (waiting := self.add(frame)) is not None:
                await waiting

    def add(self, frame: bytes) -> Awaitable[None] | None:
        """Add one event, at once or by the awaitable that is returned."""
        raise NotImplementedError


class LoggedStream(LogSink):
    """Writes one stream to a log.

    Args:
        log: The log.
        timers: The timers of the exchange.
        on_event: Called with each event, encoded, after it was added.
    """

    __slots__ = ("_on_event",)

    def __init__(self, log: EventLog, timers: StreamTimers, on_event: Callable[[bytes], None]) -> None:
        super().__init__(log, timers)
        self._on_event = on_event

    def add(self, frame: bytes) -> None:
        """Add one event."""
        self._log.append(frame)
        self._on_event(frame)
