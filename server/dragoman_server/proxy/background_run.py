"""One response that runs in the background: its last state, and the log of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from aiohttp import web

from dragoman import Translation
from dragoman.aio import ClientGone, EventLog, LogBudget, LoggedStream, LogTail, StreamTimers
from dragoman.threads import StoredRequest, lagging_event, queued_response
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.runs.own_run import OwnRun

_PROGRESS = b"event: response.in_progress"
_STATES = frozenset((_PROGRESS, b"event: response.completed", b"event: response.incomplete", b"event: response.failed"))
"""The first lines of the events that have the whole response."""


class BackgroundRun:
    """One response that runs, or has run, in the background: its last state, and the log of its events.

    `streamed` is True if it was requested with `stream`: only then its events may be read, and are kept. `request`,
    `state` and events are counted in `budget`.
    """

    def __init__(self, request: StoredRequest, limit: int, budget: LogBudget, *, streamed: bool) -> None:
        self.request: StoredRequest | None = request
        self.streamed = streamed
        self.log = EventLog(limit if streamed else 0, budget)
        self.task: asyncio.Task[web.StreamResponse] | asyncio.Task[None] | None = None
        self.share: Callable[[bytes], Awaitable[OwnRun]] | None = None
        """Shares it, with its first state, with other processes; None without a store that they share."""
        self.shared: OwnRun | None = None
        """The part of it that other processes know."""
        self.taken = False
        """True if another process has ended it, or goes on with it, as its lease was over."""
        self.attachment: Attachment | None = None
        """Its link to the response at the upstream; None without a store that processes share."""
        self.accepted = False
        """True once the request was translated."""
        self.state = b""
        """The last state, as JSON; empty once the store has it."""
        self._budget = budget
        self._counted = 0
        self._count()
        self.ended = False
        """True once `state` is final."""
        loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = loop.create_future()
        """Done once the final state is stored."""
        self._ready: asyncio.Future[None] = loop.create_future()
        self._timers: StreamTimers | None = None

    @property
    def held(self) -> int:
        """The bytes of its request, its state and its events."""
        return self._counted + self.log.size

    def take(self, own: OwnRun, state: bytes) -> None:
        """Go on with a run that another process has begun, whose last state is this one."""
        self.shared, self.state, self.accepted = own, state, True
        self._count()
        self.settle()

    async def accept(self, translation: Translation) -> None:
        """Record that the request was translated, and is about to be sent.

        Other processes know the run from here on. Raises DragomanError if it cannot be shared.
        """
        state = queued_response(translation.context)
        if self.share is not None:
            self.shared = await self.share(json_dumps(state))
        self.accepted = True
        self._set_state(state)
        if not self.streamed:
            self.settle()

    def open_stream(self, timers: StreamTimers, _: dict[str, str]) -> LoggedStream:
        """Return the log as the receiver of the stream."""
        self.settle()
        self._timers = timers
        return LoggedStream(self.log, timers, self.on_event)

    def on_event(self, frame: bytes) -> None:
        """Take the state that an event has, if it has one."""
        line = frame.partition(b"\n")[0]
        if line not in _STATES or self.ended:
            return
        response = json_loads(frame.partition(b"\ndata: ")[2])["response"]
        if line == _PROGRESS:
            self._set_state(response)
        else:
            self.end(response)

    def end(self, state: Json) -> None:
        """Set the final state. It is stored, also that of a response that has failed."""
        self.ended = True
        self._set_state({**state, "store": True})

    def release(self, *, stored: bool) -> None:
        """Free the request, and the state unless only this run has it."""
        self.request = None
        if stored:
            self.state = b""
        self._count()

    def forget(self) -> None:
        """Free everything."""
        self.log.clear()
        self.release(stored=True)

    def _set_state(self, state: Json) -> None:
        self.state = json_dumps(state)
        if self.shared is not None:
            self.shared.state = self.state
        self._count()

    def _count(self) -> None:
        size = len(self.state) + (len(self.request.input) if self.request is not None else 0)
        self._budget.spend(size - self._counted)
        self._counted = size

    def stop(self) -> None:
        """End the exchange as if its client had disconnected."""
        if self._timers is not None:
            self._timers.expire(ClientGone())
        elif self.task is not None:
            self.task.cancel()

    def leave(self) -> None:
        """End the exchange, and nothing else: another process goes on with the run, or has ended it."""
        self.taken = True
        if self.attachment is not None:
            self.attachment.is_taken = True
        self.stop()

    async def settled(self) -> None:
        """Wait until the client can be answered: accepted, begun, or failed."""
        await asyncio.shield(self._ready)

    def settle(self) -> None:
        """Let the client be answered."""
        if not self._ready.done():
            self._ready.set_result(None)

    async def follow(self, tail: LogTail) -> AsyncGenerator[bytes, None]:
        """Yield the events that `tail` reads until the end.

        Raises ConnectionError if another process goes on with the run: the client can follow it there.
        """
        log = self.log
        with tail:
            while True:
                if tail.number < log.first:
                    yield b"event: error\ndata: %b\n\n" % json_dumps(lagging_event(tail.number))
                    return
                if tail.number < log.end:
                    yield tail.read()
                elif log.closed and self.taken:
                    raise ConnectionError("another process goes on with the run")
                elif log.closed:
                    return
                else:
                    await tail
