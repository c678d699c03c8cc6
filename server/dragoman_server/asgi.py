"""The gateway as an ASGI application, for uvicorn or hypercorn, alone or mounted in Starlette or FastAPI.

    uvicorn --factory dragoman_server.asgi:app          # configured by DRAGOMAN_CONFIG, or ./dragoman.toml

    llm = app("dragoman.toml")
    api = FastAPI(lifespan=llm.lifespan)
    api.mount("/llm", llm)

It needs an event loop of asyncio, and neither an ASGI server nor a framework to be imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.aio import AsgiServer, HijackRunner
from dragoman_server.app import make_app
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.lint import remarks
from dragoman_server.config.load import load_config
from dragoman_server.config.schema import Config
from dragoman_server.observability.aiohttp_log import ServerLog
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hooks import Authorize, Choose, Hooks, OnEnd, User
from dragoman_server.proxy.unhandled_requests import connection_limits

__all__ = ("AsgiApplication", "app")

log = logging.getLogger("dragoman")
CONFIG_VARIABLE = "DRAGOMAN_CONFIG"
"""The environment variable with the path of the configuration."""
_CLOSE_SECONDS = 1.0
"""Seconds that requests have to end after the drain."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def app(
    config: Config | str | os.PathLike[str] | None = None,
    *,
    drain: float = 10.0,
    on_end: OnEnd[User] | None = None,
    authorize: Authorize[User] | None = None,
    choose: Choose[User] | None = None,
) -> AsgiApplication:
    """Return the gateway as an ASGI application.

    `config` is a configuration or the path of one. By default it is the file that `DRAGOMAN_CONFIG` names, else
    `./dragoman.toml`, else the vendors whose keys are in the environment, as for `dragoman serve`. Open replies get
    `drain` seconds when the gateway closes. The hooks are those of `setup`.

    Raises ConfigError.
    """
    if config is None:
        config = os.environ.get(CONFIG_VARIABLE) or (DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None)
    if config is None:
        config = config_from_environment(os.environ)
    elif not isinstance(config, Config):
        config = load_config(config)
    return AsgiApplication(config, Hooks(authorize, choose, on_end), drain)


class AsgiApplication:
    """The gateway as an ASGI application. It is open within its lifespan.

    Alone under an ASGI server, the server's lifespan opens and closes it. Frameworks do not pass theirs on to what is
    mounted: there, `lifespan` is to be the framework's, or to be entered within it. Otherwise the first request opens
    the gateway, and the end of the event loop closes it, after its requests were cancelled.
    """

    def __init__(self, config: Config, hooks: Hooks[Any], drain: float) -> None:
        self._hooks = hooks
        self._drain = drain
        self._gateway = Gateway(config, lines=True, hooks=hooks)
        self._used = False
        """True once the gateway was opened: it is not opened again, but replaced."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop in which the gateway is open or opens."""
        self._closed_in: asyncio.AbstractEventLoop | None = None
        """The event loop in which it was closed."""
        self._server: AsgiServer | None = None
        self._late_lifespan: asyncio.Task[None] | None = None
        """Keeps a gateway open that a request has opened."""
        self._late_opening: asyncio.Future[None] | None = None
        for sentence in remarks(config):
            log.warning("%s", sentence)

    def __repr__(self) -> str:
        return f"<AsgiApplication {'open' if self._server is not None else 'not open'}>"

    @property
    def gateway(self) -> Gateway:
        """The gateway: `reconfigure` changes its configuration."""
        return self._gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope of the types `lifespan`, `http` and `websocket`. Raises ValueError for another type."""
        if scope["type"] == "lifespan":
            await self._follow_lifespan(receive, send)
            return
        if self._server is None or self._loop is not asyncio.get_running_loop():
            await self._open_late()
            assert self._server is not None
        await self._server(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open the gateway, and close it at the end: for the `lifespan` of Starlette and FastAPI.

        Raises ConfigError or OSError if the gateway cannot be opened, and RuntimeError if it is open.
        """
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            raise RuntimeError("the gateway is open already")
        if self._used:
            self._gateway = Gateway(self._gateway.config, lines=True, hooks=self._hooks)
        gateway = self._gateway
        totals = gateway.metrics.totals
        # The connections are the ASGI server's: it limits their number.
        limits = replace(connection_limits(gateway.config.server, totals), connections=0, per_address=0)
        runner = HijackRunner(
            make_app(gateway.config, gateway=gateway, drain=self._drain),
            shutdown_timeout=_CLOSE_SECONDS,
            log=ServerLog(totals),
            limits=limits,
        )
        self._used, self._loop, self._closed_in = True, loop, None
        try:
            await runner.setup()
            assert runner.connections is not None
            self._server = AsgiServer(runner.connections)
            yield
        finally:
            await runner.cleanup()
            if self._loop is loop:
                self._closed_in = loop if self._server is not None else None
                self._server = self._loop = None

    async def _open_late(self) -> None:
        """Open the gateway for the first request in an event loop. The loop's end, which cancels tasks, closes it."""
        loop = asyncio.get_running_loop()
        if self._closed_in is loop:
            raise RuntimeError("the gateway is closed")
        opening = self._late_opening
        if opening is None or opening.get_loop() is not loop:
            log.info("the first request opens the gateway, as no lifespan has done so")
            opening = self._late_opening = loop.create_future()
            self._late_lifespan = loop.create_task(self._stay_open(opening))
        await asyncio.shield(opening)

    async def _stay_open(self, opening: asyncio.Future[None]) -> None:
        try:
            async with self.lifespan():
                opening.set_result(None)
                await asyncio.Event().wait()
        except Exception as error:
            if opening.done():
                raise
            self._late_opening = None
            opening.set_exception(error)

    async def _follow_lifespan(self, receive: Receive, send: Send) -> None:
        """Open and close the gateway at the events of the ASGI server."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except Exception as error:
                log.exception("the gateway cannot be opened")
                await send({"type": "lifespan.startup.failed", "message": f"the gateway cannot be opened: {error}"})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})
