"""A gateway on a real port before an upstream of the tests' own, and what tests ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import aiohttp
from aiohttp import web

from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.config.overload import Overload
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.proxy.gateway import Gateway
from support import samples

from .waiting import PATIENCE
from .waiting import until as until

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
ALL = ((CHAT, CHAT), (CHAT, MESSAGES), (MESSAGES, CHAT), (MESSAGES, MESSAGES))
"""(client, upstream) of every direction."""
CROSS = ((CHAT, MESSAGES), (MESSAGES, CHAT))


def config_for(
    url: str, dialect: Dialect, *, timeouts: Timeouts | None = None, knobs: Any = None, **server: Any
) -> Config:
    """One upstream that answers for every model name. Requests written by hand name the host `x`.

    All translated streams are validated, if `validate` is not given, and no lag of a busy machine rejects a request.
    """
    server.setdefault("allowed_hosts", ("x",))
    server.setdefault("validate", 1.0)
    server.setdefault("overload", Overload(event_loop_lag=0.0))
    return Config(
        providers={"up": Provider("up", dialect, url)},
        routes=[Route("*", "up", knobs=knobs or {})],
        models=Models(unknown="pass"),
        server=Server(timeouts=timeouts or Timeouts(), **server),
    )


@dataclass(slots=True)
class Gate:
    """A gateway that listens, and a client's session."""

    url: str
    gateway: Gateway
    runner: web.AppRunner
    session: aiohttp.ClientSession
    port: int = field(default=0)

    def post(
        self,
        client: Dialect,
        body: Any = None,
        *,
        query: str = "",
        headers: Mapping[str, str] = MappingProxyType({}),
        **fields: Any,
    ) -> Any:
        """A request of a client: `body` as bytes or JSON, or the sample request with `fields`."""
        if body is None:
            body = samples.request(client, **fields)
        data = body if isinstance(body, bytes) else samples.dump(body)
        sent = {"content-type": "application/json", **headers}
        return self.session.post(self.url + samples.PATHS[client] + query, data=data, headers=sent)

    async def stream(self, client: Dialect, **fields: Any) -> bytes:
        """All bytes of a streamed reply, which must have begun well and must end."""
        async with asyncio.timeout(30), self.post(client, stream=True, **fields) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            return bytes(await response.read())

    async def refusal(
        self, client: Dialect, body: Any = None, **fields: Any
    ) -> tuple[int, samples.ReportedError, dict[str, str]]:
        """Status, error and headers (by lower-case name) of a request that must fail before its reply begins."""
        async with asyncio.timeout(30), self.post(client, body, **fields) as response:
            raw = await response.read()
            assert response.status >= 400, raw
            assert response.content_type == "application/json"
            noted = samples.read_error(client, raw)
            return response.status, noted, {name.lower(): value for name, value in response.headers.items()}


@asynccontextmanager
async def served(
    app: web.Application, *, handler_cancellation: bool = True, port: int = 0
) -> AsyncIterator[tuple[str, web.AppRunner]]:
    """An application on a port of its own: its URL and its runner, of our own making where handlers are cancelled."""
    runner: web.AppRunner = (
        HijackRunner(app, shutdown_timeout=0.2)
        if handler_cancellation
        else web.AppRunner(app, handler_cancellation=False, access_log=None, shutdown_timeout=0.2)
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", runner
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gate(config: Config, *, handler_cancellation: bool = True, **gateway: Any) -> AsyncIterator[Gate]:
    """A gateway with this configuration, as `dragoman serve` runs one if handlers are cancelled."""
    made = Gateway(config, lines=handler_cancellation, **gateway)
    async with (
        served(make_app(config, gateway=made), handler_cancellation=handler_cancellation) as (url, runner),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        yield Gate(url, made, runner, session, int(url.rpartition(":")[2]))


def with_limits(config: Config, **limits: int) -> Config:
    """The configuration with other size limits."""
    server = config.server
    return replace(config, server=replace(server, limits=replace(server.limits, **limits)))


async def raw_exchange(port: int, data: bytes, *, seconds: float = PATIENCE) -> bytes:
    """Send bytes on a socket and read until the other side closes or has sent a whole reply with a length."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(seconds):
            writer.write(data)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            return head + (await reader.readexactly(int(lengths[0][15:])) if lengths else await reader.read())
    finally:
        writer.close()
