"""The connections to one origin: reused, counted, and queued for when they are limited.

A request is sent once. An idle connection is handed out only if the kernel has no unread bytes and no end for it; else
it is replaced before a byte was written. Once a request was written, losing its connection is an error, whatever the
method and however early: the server may have acted on a POST, and nothing distinguishes a server that died before
reading the request from one that died after.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import Context

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.aio.upstream.http11.response_input import BROKEN
from dragoman.errors import StreamTruncated, UpstreamTimeout, UpstreamUnreachable

_CLOSED = "the upstream connection failed: the gateway has closed its connections"


class Pool:
    """The pool of one origin: call `acquire_idle`, and if it returns None `acquire`. It is a `ConnectionOwner`:
    connections return by themselves (`put_idle`) or leave it (`discard`)."""

    def __init__(self, origin: Origin, connector: Connector, options: PoolOptions) -> None:
        self.loop = connector.loop
        self.options = options
        self._origin = origin
        self._connector = connector
        self._idle: dict[Connection, float] = {}
        """Idle connections with the loop's time until which each is kept. The last one in is the first one out."""
        self._live: set[Connection] = set()
        self._opening: set[asyncio.Task[Connection]] = set()
        self._slots_used = 0
        """Number of live connections and of those being opened."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._emptied: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        counts = f"busy={self.busy} idle={self.idle} waiting={self.waiting}"
        return f"<Pool {self.origin} {counts}{' closed' if self._closed else ''}>"

    @property
    def busy(self) -> int:
        """Number of connections that are not idle, including those being opened."""
        return self._slots_used - len(self._idle)

    @property
    def idle(self) -> int:
        """Number of connections that are kept for reuse."""
        return len(self._idle)

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a connection."""
        return len(self._waiters)

    @property
    def origin(self) -> str:
        """The server of the pool as scheme, host and port."""
        host = f"[{self._origin.host}]" if ":" in self._origin.host else self._origin.host
        return f"{'https' if self._origin.secure else 'http'}://{host}:{self._origin.port}"

    @property
    def unused(self) -> bool:
        """True if the pool has no connection and nothing waits for one."""
        return not (self._slots_used or self._waiters or self._opening)

    def acquire_idle(self) -> Connection | None:
        """Return an idle connection; None if the pool has no idle one or if other requests wait for one."""
        return None if self._waiters else self._pop_idle()

    def _pop_idle(self) -> Connection | None:
        while self._idle:
            connection, until = self._idle.popitem()
            if until > self.loop.time() and connection.is_reusable():
                return connection
            connection.abort()
        return None

    async def acquire(self, seconds: float, timers: StreamTimers) -> Connection:
        """Open a connection, or at the limit wait for one to become free; both within `seconds`.

        Raises UpstreamUnreachable, UpstreamTimeout, or the error by which the timers end the request.
        """
        if self._closed:
            raise UpstreamUnreachable(_CLOSED)
        # A task of its own: it can be cancelled at any point, and the connection outlives this request's context.
        opening = self.loop.create_task(self._acquire_slot(), context=Context())
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        failures: list[BaseException] = []

        def fail(error: BaseException) -> None:
            failures.append(error)
            opening.cancel()

        timers.attach(fail)
        timer = self.loop.call_later(seconds, fail, UpstreamTimeout("connect", seconds))
        try:
            await asyncio.wait((opening,))
        except BaseException:
            opening.add_done_callback(self._keep_unclaimed)
            opening.cancel()
            raise
        finally:
            timer.cancel()
        if failures:
            self._keep_unclaimed(opening)
            raise failures[0]
        if opening.cancelled():
            raise UpstreamUnreachable(_CLOSED)
        return opening.result()

    def _keep_unclaimed(self, opening: asyncio.Task[Connection]) -> None:
        """Keep a connection that was established just when its request was cancelled."""
        if not opening.cancelled() and opening.exception() is None:
            connection = opening.result()
            if connection.reset():
                self.put_idle(connection, self.options.idle_seconds)
            else:
                connection.abort()

    async def _acquire_slot(self) -> Connection:
        """Wait until the limit allows a connection; return one that became idle meanwhile, or open one."""
        limit = self.options.limit
        if limit and (self._waiters or self._slots_used >= limit):
            at_head = False
            while True:
                waiter = self.loop.create_future()
                if at_head:
                    self._waiters.appendleft(waiter)
                else:
                    self._waiters.append(waiter)
                try:
                    await waiter
                except asyncio.CancelledError:
                    self._waiters.remove(waiter)
                    if waiter.done() and not waiter.cancelled():
                        self._wake_next()
                    raise
                self._waiters.remove(waiter)
                if (connection := self._pop_idle()) is not None:
                    return connection
                if self._slots_used < limit:
                    break
                at_head = True  # the freed connection was taken meanwhile; wait at the head of the queue
        self._slots_used += 1
        connection = Connection(self)
        try:
            await self._connector.connect(self._origin, connection)
        except BaseException:
            if connection.was_connected:
                connection.abort()
            else:
                self._slots_used -= 1
                self._wake_next()
            raise
        return connection

    def _wake_next(self) -> None:
        """Wake the next waiter, as a connection or a slot became free.

        The waiter stays in the queue until its task runs, so that later requests cannot overtake it.
        """
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                return

    def add(self, connection: Connection) -> None:
        """Count a connection that is established."""
        self._live.add(connection)

    def put_idle(self, connection: Connection, seconds: float) -> None:
        """Keep a connection for reuse within `seconds`, or close it if enough are kept."""
        if self._closed or (len(self._idle) >= self.options.idle and not self._waiters):
            connection.abort()
            return
        self._idle[connection] = self.loop.time() + seconds
        if self._waiters:
            self._wake_next()
        if self._sweeper is None:
            self._sweeper = self.loop.call_later(seconds, self._sweep)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._live.discard(connection)
        self._idle.pop(connection, None)
        self._slots_used -= 1
        self._wake_next()
        if self._emptied is not None and not self._live and not self._emptied.done():
            self._emptied.set_result(None)

    def _sweep(self) -> None:
        """Close the idle connections whose time is over."""
        now = self.loop.time()
        for connection, until in tuple(self._idle.items()):
            if until <= now:
                del self._idle[connection]
                connection.abort()
        self._sweeper = None
        if self._idle:
            self._sweeper = self.loop.call_later(max(0.1, min(self._idle.values()) - now), self._sweep)

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
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
