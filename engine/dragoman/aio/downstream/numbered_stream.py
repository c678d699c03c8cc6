"""A stream whose events have ids, so that a client whose connection broke can name the last one that it received."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from dragoman.aio.downstream.event_log import EventLog, LogSink
from dragoman.aio.proxy_stream import ping_of
from dragoman.aio.stream_timers import StreamTimers
from dragoman.dialects import Dialect
from dragoman.wire.sse import COMMENT


class LogReader(Protocol):
    """The client of a log: a stream waits for it, so that no event is dropped unread."""

    def must_wait(self, size: int) -> bool:
        """True if an event of this size must wait until more was read."""
        ...

    async def wait(self, size: int) -> None:
        """Wait until it need not."""
        ...


class NumberedStream(LogSink):
    """Writes one stream to a log, each event with the `id` line of `prefix` and its number, from 0.

    Comments are dropped, and so are ids of the upstream. Without a prefix, events have no ids.

    Args:
        log: The log.
        timers: The timers of the exchange. Waiting for the reader is a write for them.
        prefix: The first part of the ids.
        reader: The client of the log.
    """

    __slots__ = ("_id", "_reader")

    def __init__(self, log: EventLog, timers: StreamTimers, prefix: bytes, reader: LogReader) -> None:
        super().__init__(log, timers)
        self._id = b"id: " + prefix if prefix else b""
        self._reader = reader

    def add(self, frame: bytes) -> Awaitable[None] | None:
        """Add one event, once the reader has read enough."""
        log = self._log
        if self._id:
            # After the data: the last id of an event counts, and some clients expect `data` or `event` first.
            frame = b"%b%b%d\n\n" % (frame[:-1], self._id, log.end)
        if log.seen < log.written and self._reader.must_wait(len(frame)):
            return self._add_later(frame)
        log.append(frame)
        return None

    async def _add_later(self, frame: bytes) -> None:
        self._timers.writing()
        await self._reader.wait(len(frame))
        self._timers.written()
        self._log.append(frame)


def numbered_ping_of(client: Dialect) -> bytes:
    """Return the heartbeat of a stream whose events have ids.

    OpenAI's Python SDK takes a comment with a blank line after an event with an id for an event without data, and fails
    on it. So the comment is a part of the next event.
    """
    ping = ping_of(client)
    return ping[:-1] if ping == COMMENT else ping
