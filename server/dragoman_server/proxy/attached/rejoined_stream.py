"""The stream of a run that another process has begun: it goes on after the last event that is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dragoman.aio import EventLog, LogBudget, LogSink, StreamTimers
from dragoman.wire import json_loads

_PINGS = (b"event: ping\n", b"event: keepalive\n")


def filled_log(limit: int, budget: LogBudget | None, first: int, frames: Sequence[bytes]) -> EventLog:
    """Return a log with the events from `first` on."""
    log = EventLog(limit, budget)
    log.first = log.end = first
    for frame in frames:
        log.append(frame)
    return log


class RejoinedStream(LogSink):
    """Compares the events of a stream that is read again with those that are stored, and adds the others to `inner`.

    Equal events are dropped, so that clients see none twice and miss none. Heartbeats do not count: an upstream
    sends them only the first time.

    Args:
        inner: Takes the events that follow.
        log: The log that `inner` writes to.
        timers: The timers of the exchange.
        first: The number of the first event that is stored; those before it are counted.
        stored: The frames of the events that are stored.
        seen: Called with each event that is dropped.
        diverged: Called if an event differs from the one that is stored in its place. Nothing is dropped then.
    """

    __slots__ = ("_diverged", "_inner", "_number", "_seen", "_skipped", "_stored")

    def __init__(
        self,
        inner: LogSink,
        log: EventLog,
        timers: StreamTimers,
        first: int,
        stored: Sequence[bytes],
        seen: Callable[[bytes], None],
        diverged: Callable[[], None],
    ) -> None:
        super().__init__(log, timers)
        self._inner = inner
        self._skipped = first
        self._stored: Sequence[bytes] = [frame for frame in stored if not _is_ping(frame)]
        self._number = 0
        self._seen = seen
        self._diverged = diverged

    def add(self, frame: bytes) -> Awaitable[None] | None:
        """Add one event, or drop it."""
        if not self._skipped and self._number >= len(self._stored):
            return self._inner.add(frame)
        if _is_ping(frame):
            return None
        if self._skipped:
            self._skipped -= 1
            return None
        stored = self._stored[self._number]
        if stored != frame and not stored.startswith(frame[:-1] + b"id: ") and _facts(stored) != _facts(frame):
            self._number = len(self._stored)
            self._diverged()
            return None
        self._number += 1
        self._seen(frame)
        return None


def _is_ping(frame: bytes) -> bool:
    return frame.startswith(_PINGS)


def _facts(frame: bytes) -> object:
    """Return what an event states, without what may differ the second time: its padding, and the time of the end."""
    data = b"\n".join(line[5:].lstrip() for line in frame.split(b"\n") if line.startswith(b"data:"))
    try:
        event = json_loads(data)
    except ValueError:
        return data
    if type(event) is dict:
        event.pop("obfuscation", None)
        if type(response := event.get("response")) is dict:
            response.pop("completed_at", None)
    return event
