"""How a worker leaves while others serve the same address: nobody is refused, nobody is cut.

It has stopped accepting. Each reply from now on says `connection: close`, so that a client's next request opens a
connection to another worker. A connection that is idle is kept for a while, for clients that use it once more: a
request that crosses a close on its way is lost, and a client may not send a POST again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman.aio.downstream.hijack import HijackServer

LINGER = 20.0
"""Seconds an idle connection is kept: the HTTP clients of the vendors' SDKs give theirs up after 4 to 15 s."""
_POLL_SECONDS = 0.1


class ConnectionDrain:
    """The connections of `app`, which must not have started. `clock` gives seconds; default: the event loop's."""

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
        """From now on replies are the last of their connection."""
        now = self._begun_at = self._clock()
        self._idle_since = dict.fromkeys(hijack_server.server.connections, now)

    def close_idle(self, hijack_server: HijackServer) -> None:
        """Close connections that were idle for long enough."""
        assert self._begun_at is not None
        now = self._clock()
        for connection in hijack_server.server.connections:
            # One that a long reply had for itself comes back as another; it is idle from here on.
            idle_since = self._idle_since.setdefault(connection, now)
            if connection not in self._busy and now - idle_since >= self._linger:
                connection.force_close()

    async def finish(self, hijack_server: HijackServer, seconds: float) -> bool:
        """Wait until all connections are closed, `seconds` at most. Returns whether they are."""
        try:
            async with asyncio.timeout(seconds):
                while hijack_server.connections:
                    self.close_idle(hijack_server)
                    await asyncio.sleep(_POLL_SECONDS)  # nothing announces a closed connection
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
    """Let a response that is being prepared be the last of its connection, and its client know (RFC 9112 §9.6)."""
    response.headers["connection"] = "close"
    response.force_close()
