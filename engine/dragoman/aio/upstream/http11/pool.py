"""The connections to one origin: kept for the next request, counted, and waited for in turn when they are limited.

A request is sent once. A connection is given out only if the kernel knows of nothing that came on it; one that is found
dead then is replaced before a byte was written. Once a request was written, its loss is an error, whatever the method
and however early: a POST may have been acted on, and no sign tells a server that died before reading it from one that
died after. (Nothing here is anything but a POST.)
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.connection import BROKEN, Connection
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.errors import StreamTruncated, UpstreamTimeout, UpstreamUnreachable

_CLOSED = "the upstream connection failed: the gateway has closed its connections"


class Pool:
    """`take` one that is idle, else `connect`; connections come back by themselves (`release`, `gone`)."""

    __slots__ = (
        "_closed",
        "_connector",
        "_emptied",
        "_idle",
        "_live",
        "_opening",
        "_origin",
        "_places",
        "_sweeper",
        "_waiting",
        "connections",
        "loop",
    )

    def __init__(self, origin: Origin, dialer: Connector, connections: PoolOptions) -> None:
        self.loop = dialer.loop
        self.connections = connections
        self._origin = origin
        self._connector = dialer
        self._idle: dict[Connection, float] = {}
        """With the time until which each is kept; the last one in is the first one out."""
        self._live: set[Connection] = set()
        self._opening: set[asyncio.Task[Connection]] = set()
        self._places = 0
        """Live connections and those about to be."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._emptied: asyncio.Future[None] | None = None

    @property
    def busy(self) -> int:
        """Connections that are not idle, those about to be made among them."""
        return self._places - len(self._idle)

    @property
    def unused(self) -> bool:
        """Whether nothing is lost if the pool is forgotten."""
        return not (self._places or self._waiting or self._opening)

    def acquire_idle(self) -> Connection | None:
        """A connection that a request may be sent on now; None if there is none, or if others wait for one."""
        return None if self._waiting else self._pick()

    def _pick(self) -> Connection | None:
        while self._idle:
            connection, until = self._idle.popitem()
            if until > self.loop.time() and connection.is_reusable():
                return connection
            connection.abort()
        return None

    async def acquire(self, seconds: float, watch: StreamTimers) -> Connection:
        """A new connection, or with a limit the next one that comes free. Both within `seconds`.

        Raises UpstreamUnreachable, UpstreamTimeout, or what the watch fails it with.
        """
        if self._closed:
            raise UpstreamUnreachable(_CLOSED)
        # A task of its own: it can be failed at any point, and the connection outlives this request's context.
        opening = self.loop.create_task(self._acquire_slot(), context=Context())
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        failures: list[BaseException] = []

        def fail(error: BaseException) -> None:
            failures.append(error)
            opening.cancel()

        watch.attach(fail)
        timer = self.loop.call_later(seconds, fail, UpstreamTimeout("connect", seconds))
        try:
            await asyncio.wait((opening,))
        except BaseException:
            opening.add_done_callback(self._close_unclaimed)
            opening.cancel()
            raise
        finally:
            timer.cancel()
        if failures:
            self._close_unclaimed(opening)
            raise failures[0]
        if opening.cancelled():
            raise UpstreamUnreachable(_CLOSED)
        return opening.result()

    def _close_unclaimed(self, opening: asyncio.Task[Connection]) -> None:
        """Connected at the very moment at which it was given up."""
        if not opening.cancelled() and opening.exception() is None:
            connection = opening.result()
            if connection.reset():
                self.put_idle(connection, self.connections.idle_seconds)
            else:
                connection.abort()

    async def _acquire_slot(self) -> Connection:
        limit = self.connections.limit
        if limit and (self._waiting or self._places >= limit):
            first = False
            while True:
                turn = self.loop.create_future()
                if first:
                    self._waiting.appendleft(turn)
                else:
                    self._waiting.append(turn)
                try:
                    await turn
                except asyncio.CancelledError:
                    self._waiting.remove(turn)
                    if turn.done() and not turn.cancelled():
                        self._wake_next()
                    raise
                self._waiting.remove(turn)
                if (connection := self._pick()) is not None:
                    return connection
                if self._places < limit:
                    break
                first = True  # what it was called for is gone again
        self._places += 1
        connection = Connection(self)
        try:
            await self._connector.connect(self._origin, connection)
        except BaseException:
            if connection.made:
                connection.abort()
            else:
                self._places -= 1
                self._wake_next()
            raise
        return connection

    def _wake_next(self) -> None:
        """A connection or a place came free. Who was called stays in the queue until it runs: nobody overtakes it."""
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
                return

    def made(self, connection: Connection) -> None:
        """It is connected."""
        self._live.add(connection)

    def put_idle(self, connection: Connection, seconds: float) -> None:
        """It can be used again, for so long."""
        if self._closed or (len(self._idle) >= self.connections.idle and not self._waiting):
            connection.abort()
            return
        self._idle[connection] = self.loop.time() + seconds
        if self._waiting:
            self._wake_next()
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(seconds, self._sweep)

    def discard(self, connection: Connection) -> None:
        """It is closed."""
        self._live.discard(connection)
        self._idle.pop(connection, None)
        self._places -= 1
        self._wake_next()
        if self._emptied is not None and not self._live and not self._emptied.done():
            self._emptied.set_result(None)

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection, until in tuple(self._idle.items()):
            if until <= now:
                del self._idle[connection]
                connection.abort()
        self._sweeper = None
        if self._idle:
            self._sweeper = self.loop.call_later(max(0.1, min(self._idle.values()) - now), self._sweep)

    async def close(self) -> None:
        """Cut all connections and wait until they are closed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for opening in self._opening:
            opening.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for connection in tuple(self._live):
            connection.fail(StreamTruncated(BROKEN))
        if self._live:
            self._emptied = self.loop.create_future()
            await self._emptied
