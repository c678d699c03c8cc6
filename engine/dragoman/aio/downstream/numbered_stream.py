"""A stream whose events have ids, so that a client whose connection broke can name the last one that it received."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Never, Protocol

from dragoman.aio.downstream.event_log import EventLog, LoggedStream
from dragoman.aio.proxy_stream import ping_of
from dragoman.aio.stream_timers import StreamTimers
from dragoman.dialects import Dialect
from dragoman.stages.base import Stage
from dragoman.wire.sse import COMMENT, Frame, encode


class LogReader(Protocol):
    """The client of a log: a stream waits for it, so that no event is dropped unread."""

    def must_wait(self, size: int) -> bool:
        """True if an event of this size must wait until more was read."""
        ...

    async def wait(self, size: int) -> None:
        """Wait until it need not."""
        ...


class NumberedStream(LoggedStream):
    """Writes one stream to a log, each event with the `id` line of `prefix` and its number, from 0.

    Comments are dropped, and so are ids of the upstream. Without a prefix, events have no ids.

    Args:
        log: The log.
        timers: The timers of the exchange. Waiting for the reader is a write for them.
        prefix: The first part of the ids.
        reader: The client of the log.
    """

    __slots__ = ("_prefix", "_reader")

    def __init__(self, log: EventLog, timers: StreamTimers, prefix: bytes, reader: LogReader) -> None:
        super().__init__(log, timers, _ignore)
        self._prefix = prefix
        self._reader = reader

    async def send_body(self, batches: AsyncGenerator[bytes, None], last_stage: Stage[Never, object]) -> None:
        """Add all events. Raises the errors of `batches`."""
        async for data in batches:
            await self.write(data)
        await self._add(self._parser.finish())

    async def write(self, data: bytes) -> None:
        """Add the events that `data` completes, as the reader reads them."""
        await self._add(self._parser.parse(data))

    async def end(self, last: bytes) -> None:
        """Add the events that `last` completes, and what remains."""
        await self._add(self._parser.parse(last))
        await self._add(self._parser.finish())

    async def _add(self, frames: Iterable[Frame]) -> None:
        log, prefix = self._log, self._prefix
        for frame in frames:
            if frame.data is None:
                continue
            event = encode(frame)
            if prefix:
                # After the data: the last id of an event counts, and some clients expect `data` or `event` first.
                event = b"%bid: %b%d\n\n" % (event[:-1], prefix, log.end)
            if self._reader.must_wait(len(event)):
                self._timers.writing()
                await self._reader.wait(len(event))
                self._timers.written()
            log.append(event)


def numbered_ping_of(client: Dialect) -> bytes:
    """Return the heartbeat of a stream whose events have ids.

    OpenAI's Python SDK takes a comment with a blank line after an event with an id for an event without data, and fails
    on it. So the comment is a part of the next event.
    """
    ping = ping_of(client)
    return ping[:-1] if ping == COMMENT else ping


def _ignore(_: str, __: bytes) -> None:
    return
