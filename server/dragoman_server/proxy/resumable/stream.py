"""One stream that may be resumed: its log, and the client that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from dragoman import DragomanError
from dragoman.aio import ClientGone, Downstream, EventLog, LogBudget, LogTail, NumberedStream, StreamTimers

if TYPE_CHECKING:
    from dragoman_server.proxy.attached.attachment import Attachment
    from dragoman_server.proxy.runs.own_run import OwnRun
    from dragoman_server.receipt import Receipt

_UNREAD = 64 * 1024
"""Bytes that a stream that cannot be resumed may be ahead of its client."""


class ResumableStream:
    """The stream of one request, which a task of its own writes to a log of at most `limit` bytes.

    One client at a time reads the log. While it does, the stream waits for it as for any client, so that no event is
    dropped unread. Without a client, the oldest events are dropped.
    """

    def __init__(self, receipt: Receipt, limit: int) -> None:
        self.request_id, self.client = receipt.request_id, receipt.client
        self.log = EventLog(limit)
        self.headers: Mapping[str, str] = {}
        """The headers of the response."""
        self.task: asyncio.Task[web.StreamResponse] | asyncio.Task[None] | None = None
        self.owner: str | None = None
        """The client that may resume the stream; None if it cannot be resumed."""
        self.leaving: asyncio.TimerHandle | None = None
        """Ends the exchange later, as its client has left."""
        self.shared: OwnRun | None = None
        """The part of it that other processes know; None without a store that they share."""
        self.attachment: Attachment | None = None
        """Its link to the response at the upstream; None without a store that processes share."""
        self.elsewhere = ""
        """The mark of the client that reads it in another process; empty without one."""
        self._taken_back = ""
        """The mark of the last one that a client of this process has replaced."""
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once there is a stream, and not an error or a whole reply."""
        self._reader: web.Request | None = None
        self._limit = limit
        self._budget: LogBudget | None = None
        self._read = asyncio.Event()
        self._timers: StreamTimers | None = None

    @property
    def is_read(self) -> bool:
        """True while a client reads the stream."""
        return self._reader is not None

    def open(self, timers: StreamTimers, headers: Mapping[str, str], budget: LogBudget | None) -> Downstream:
        """Return the log as the receiver of the stream. Without a budget, the stream cannot be resumed."""
        self._timers, self.headers, self._budget = timers, headers, budget
        if budget is None:
            self._limit = min(self._limit, _UNREAD)
        self.log = EventLog(self._limit, budget)
        if self.is_read:
            self.log.hold()
        self.opened.set_result(None)
        prefix = f"{self.request_id}." if budget is not None else ""
        return NumberedStream(self.log, timers, prefix.encode(), self)

    def go_on(self, log: EventLog, budget: LogBudget, headers: Mapping[str, str]) -> None:
        """Go on with a stream that another process has begun, whose events are in this log."""
        self.log, self._budget, self.headers = log, budget, headers
        self.opened.set_result(None)

    def reopen(self, timers: StreamTimers) -> NumberedStream:
        """Return the receiver of the events that follow those in the log."""
        self._timers = timers
        return NumberedStream(self.log, timers, f"{self.request_id}.".encode(), self)

    def end(self, _: object = None) -> None:
        """End the log: the exchange has ended."""
        if self.leaving is not None:
            self.leaving.cancel()
            self.leaving = None
        self.log.close()

    def stop(self) -> None:
        """End the exchange as if its client had disconnected."""
        if self._timers is not None:
            self._timers.expire(ClientGone())
        elif self.task is not None:
            self.task.cancel()

    def fail(self, error: DragomanError) -> None:
        """End the exchange in an error."""
        if self._timers is not None:
            self._timers.expire(error)

    # --- the reader --------------------------------------------------------------------------------------------------

    def attach(self, reader: web.Request) -> None:
        """Set the client that reads. The connection of the one before is closed: it is most likely a broken one."""
        before, self._reader, self.log.seen = self._reader, reader, 0
        self.log.hold()
        self._read.set()
        if self.leaving is not None:
            self.leaving.cancel()
            self.leaving = None
        if before is not None:
            abort(before)
            self.log.wake()

    def detach(self, reader: web.Request) -> bool:
        """Remove a client that reads no longer. Return True if no other one has replaced it."""
        if self._reader is not reader:
            return False
        self._reader = None
        self._read.set()
        self.log.release()
        return True

    def abort_reader(self) -> None:
        """Close the connection of the client that reads."""
        if self._reader is not None:
            abort(self._reader)
            self.detach(self._reader)
            self.log.wake()

    def read_elsewhere(self, mark: str) -> bool:
        """Set the mark of the client that reads in another process, which replaces the one here.

        Return True if that was the last client, and has left.
        """
        before = self.elsewhere
        if mark == before or (mark and mark == self._taken_back):  # that was read before it was replaced
            return False
        self.elsewhere = mark
        if mark:
            self.abort_reader()
        if mark and self.leaving is not None:
            self.leaving.cancel()
            self.leaving = None
        return bool(before) and not mark and not self.is_read

    def take_back(self) -> str:
        """Let a client of this process replace one elsewhere. Return the mark of that one, empty without one."""
        mark, self.elsewhere = self.elsewhere, ""
        self._taken_back = mark or self._taken_back
        return mark

    async def follow(self, reader: web.Request, tail: LogTail) -> AsyncGenerator[bytes, None]:
        """Yield the events that `tail` reads.

        Raises ConnectionError if another client reads now, or if an event was dropped before it was read.
        """
        log = self.log
        with tail:
            while self._reader is reader:
                if tail.number < log.first:
                    raise ConnectionError("events were dropped before they were read")
                if tail.number < log.end:
                    data = tail.read()
                    self._read.set()
                    yield data
                elif log.closed:
                    return
                else:
                    await tail
        raise ConnectionError("another client resumed the stream")

    def must_wait(self, size: int) -> bool:
        """True if an event of this size must wait: with it, the log would drop what the client has not read."""
        unread = self.log.written - self.log.seen
        if self._reader is None or unread <= 0:
            return False
        return unread + size > self._limit or (self._budget is not None and not self._budget.has_room(size))

    async def wait(self, size: int) -> None:
        """Wait until the client has read, or has left."""
        while self.must_wait(size):
            self._read.clear()
            await self._read.wait()


def abort(request: Any) -> None:
    """Close the connection of a client at once."""
    if request.transport is not None:
        request.transport.abort()
