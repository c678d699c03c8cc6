"""The events of a stream that outlives its client: they are kept in memory, and read any number of times.

`LoggedStream` takes the place of `DownstreamResponse`. It waits for no reader: the log has a limit, and drops its
oldest events beyond it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from dragoman.aio.downstream.frame_sink import FrameSink
from dragoman.aio.stream_timers import StreamTimers

_UNUSED = 256
"""Dropped frames up to which the list is not made shorter."""


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

    def spend(self, size: int) -> None:
        """Count `size` bytes more, or less if it is negative."""
        self.used += size
        if self._whole is not None:
            self._whole.spend(size)
        while self.used > self.limit and self._ended:
            next(iter(self._ended)).clear()

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
        self._size = 0
        self._changed: asyncio.Future[None] | None = None
        self.first = 0
        """The number of the oldest event that is kept."""
        self.written = 0
        """Bytes of all events so far."""
        self.closed = False
        self._held = False

    @property
    def end(self) -> int:
        """The number of the next event."""
        return self.first + len(self._frames) - self._dropped

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return self._size

    def append(self, frame: bytes) -> None:
        """Add an event, unless the log has ended."""
        if self.closed:
            return
        budget = self._budget
        self._frames.append(frame)
        self._size += len(frame)
        self.written += len(frame)
        if budget is not None:
            budget.spend(len(frame))
        while self._dropped < len(self._frames) - 1 and (
            self._size > self._limit or (budget is not None and budget.exceeded)
        ):
            size = len(self._frames[self._dropped])
            self._size -= size
            if budget is not None:
                budget.spend(-size)
            self._frames[self._dropped] = b""
            self._dropped += 1
            self.first += 1
        if self._dropped > _UNUSED and self._dropped * 2 > len(self._frames):
            del self._frames[: self._dropped]
            self._dropped = 0
        self._wake()

    def close(self) -> None:
        """End the log: no event follows."""
        if not self.closed:
            self.closed = True
            self._offer()
        self._wake()

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
        if self._budget is not None:
            self._budget.forget(self)
            self._budget.spend(-self._size)
        self._dropped = self._size = 0

    def has(self, number: int) -> bool:
        """True if the events from this one on can be read: they are kept, or still to come."""
        return self.first <= number <= self.end

    async def wait(self, number: int, seconds: float) -> None:
        """Wait until there is an event of this number, or the end; for at most `seconds`."""
        while number >= self.end and not self.closed:
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            changed = self._changed
            done, _ = await asyncio.wait((changed,), timeout=seconds)
            if not done:
                return

    def read(self, number: int) -> bytes:
        """Return all events from this one on, which must be kept."""
        return b"".join(self.frames(number))

    def frames(self, number: int) -> list[bytes]:
        """Return the frames of these events."""
        return self._frames[self._dropped + number - self.first :]

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None and not changed.done():
            changed.set_result(None)


class LoggedStream(FrameSink):
    """Writes one stream to a log.

    Args:
        log: The log.
        timers: The timers of the exchange.
        on_event: Called with the SSE event name and the data of each event, after it was added.
    """

    __slots__ = ("_log", "_on_event")

    def __init__(self, log: EventLog, timers: StreamTimers, on_event: Callable[[str, bytes], None]) -> None:
        super().__init__(timers)
        self._log = log
        self._on_event = on_event

    async def send(self, event: str, data: bytes) -> None:
        """Add one event."""
        self._log.append(b"event: %b\ndata: %b\n\n" % (event.encode(), data))
        self._on_event(event, data)
