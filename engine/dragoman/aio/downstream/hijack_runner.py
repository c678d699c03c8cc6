"""The runner of an application whose connections can be hijacked."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.log import server_logger

from dragoman.aio.downstream.aiohttp_check import Log, check_once
from dragoman.aio.downstream.aiohttp_internals import as_server, is_trusted
from dragoman.aio.downstream.connection_limits import ConnectionLimits
from dragoman.aio.downstream.hijack import HijackServer


class HijackRunner(web.AppRunner):
    """A runner of an application whose connections can be hijacked. `log` is aiohttp's logger, `limits` limits the
    connections.

    At the stop, the application's shutdown handlers end its replies before the connections are closed. A client that
    sends a request on an idle connection meanwhile gets a response, if only an error: aiohttp's own runner would not
    read it, and close the connection. With `closes_kept`, idle connections that have served a request are closed first:
    a client or proxy that finds such a connection closed sends its request elsewhere.
    """

    __slots__ = ("_closes_kept", "_limits", "_log", "_shut_down", "connections")

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_timeout: float,
        log: Log = server_logger,
        limits: ConnectionLimits | None = None,
        closes_kept: bool = False,
    ) -> None:
        self._closes_kept = closes_kept
        self._limits = limits or ConnectionLimits()
        self._log = log
        super().__init__(
            app,
            # A client that disconnects cancels its handler, and with it the upstream, at once.
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=shutdown_timeout,
            logger=log,
            keepalive_timeout=self._limits.keep_alive,
            # aiohttp would also decompress the body of a rejected request, to its end and in one turn, to drop it.
            auto_decompress=False,
        )
        self.connections: HijackServer | None = None
        self._shut_down = False

    @property
    def server(self) -> web.Server | None:
        """The protocol factory of the runner's sites."""
        return as_server(self.connections) if self.connections is not None and is_trusted() else super().server

    async def setup(self) -> None:
        """Check aiohttp, and create the server."""
        await check_once(self._log)
        await super().setup()
        server = super().server
        assert server is not None
        self.connections = HijackServer(server, self._limits)

    async def shutdown(self) -> None:
        """Run the application's shutdown handlers, once: `cleanup` does so earlier than aiohttp would."""
        if not self._shut_down:
            self._shut_down = True
            await super().shutdown()

    async def cleanup(self) -> None:
        """Stop the server. Replies that the application has not ended by then are cut."""
        connections, self.connections = self.connections, None
        if connections is not None:
            for site in self.sites:
                await site.stop()
            if self._closes_kept:
                await asyncio.sleep(0)  # so that the handlers of the requests that were read have begun
                connections.close_kept()
            await self.shutdown()
            connections.closing = True
        await super().cleanup()
        if connections is not None:
            await connections.close(1.0)
