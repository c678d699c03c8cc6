"""Drain of a worker's connections, so that it can exit without losing a request while other workers serve the address.

The worker has stopped accepting. From then on each response carries `connection: close`, so that the client's next
request opens a connection to another worker. Idle connections stay open for `linger` seconds, because a client may
reuse one: a request that is sent while the server closes the connection is lost, and clients do not retry a POST.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman.aio import HijackServer

LINGER = 20.0
"""Seconds that an idle connection stays open. The HTTP clients of the vendors' SDKs drop theirs after 4 to 15 s."""
_POLL_SECONDS = 0.1


class ConnectionDrain:
    """Tracks the connections of `app`, which must not have started yet, and closes them after `start`.

    `linger` is in seconds; `clock` returns seconds (default: the event loop's clock).
    """

    def __init__(
        self, app: web.Application, *, linger: float = LINGER, clock: Callable[[], float] | None = None
    ) -> None:
        self._linger = linger
        self._clock = clock or asyncio.get_running_loop().time
        self._begun_at: float | None = None
        self._busy: set[object] = set()
        self._idle_since: dict[object, float] = {}
        app.middlewares.insert(0, self._track_request)
        app.on_response_prepare.append(self._mark_last_reply)

    def begin(self, hijack_server: HijackServer) -> None:
        """Begin to drain: every response from now on is the last of its connection."""
        now = self._begun_at = self._clock()
        self._idle_since = dict.fromkeys(hijack_server.server.connections, now)

    def close_idle(self, hijack_server: HijackServer) -> None:
        """Close the connections that have been idle for `linger` seconds."""
        assert self._begun_at is not None
        now = self._clock()
        for connection in hijack_server.server.connections:
            # A connection that was detached for a long stream returns as a new object: it counts as idle from now on.
            idle_since = self._idle_since.setdefault(connection, now)
            if connection not in self._busy and now - idle_since >= self._linger:
                connection.force_close()

    async def finish(self, hijack_server: HijackServer, seconds: float) -> bool:
        """Wait at most `seconds` until all connections are closed. Return True if they are."""
        try:
            async with asyncio.timeout(seconds):
                while hijack_server.connections:
                    self.close_idle(hijack_server)
                    await asyncio.sleep(_POLL_SECONDS)  # aiohttp has no event for a closed connection
        except TimeoutError:
            return False
        return True

    @web.middleware
    async def _track_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)
            if self._begun_at is not None:
                self._idle_since[connection] = self._clock()

    async def _mark_last_reply(self, _: web.Request, response: web.StreamResponse) -> None:
        if self._begun_at is not None:
            mark_last_reply(response)


def mark_last_reply(response: web.StreamResponse) -> None:
    """Make a response that is being prepared the last of its connection, with `connection: close` (RFC 9112 §9.6)."""
    if response.status != HTTPStatus.SWITCHING_PROTOCOLS:  # a WebSocket is the last reply of its connection anyway
        response.headers["connection"] = "close"
        response.force_close()
