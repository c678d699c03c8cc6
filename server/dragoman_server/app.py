"""The gateway as an aiohttp application, or mounted in another application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import hdrs, web
from aiohttp.web import AbstractResource

from dragoman.aio import abandon_body, is_decompressed
from dragoman.gateway import vocabulary_installed
from dragoman.wire import Json
from dragoman_server.config.lint import remarks
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.paths import add_paths
from dragoman_server.endpoints.unknown_path import add_unknown_path
from dragoman_server.proxy.error_response import OWN_ID, REJECTION, SOFTWARE
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hooks import NO_HOOKS, Authorize, Choose, Hooks, OnEnd, User
from dragoman_server.workers.drain import mark_last_reply

if TYPE_CHECKING:
    from dragoman_server.endpoints.console.console import Console
    from dragoman_server.endpoints.hosts.process_state import ProcessStates

log = logging.getLogger("dragoman")
SIMULATED_HEADER = "x-dragoman-simulated"
"""Header of all responses of a gateway whose upstream is the simulated one."""


def setup(
    app: web.Application,
    config: Config,
    *,
    prefix: str = "",
    gateway: Gateway | None = None,
    drain: float = 10.0,
    on_end: OnEnd[User] | None = None,
    authorize: Authorize[User] | None = None,
    choose: Choose[User] | None = None,
) -> Gateway:
    """Mount the gateway in `app` below `prefix`, such as "/llm". Several can be mounted in one app.

    The gateway opens and closes with the app. A client that hangs up cancels its upstream at once when the server runs
    with `handler_cancellation=True` (as `dragoman serve` does), else within a second. When the app stops, open replies
    get `drain` seconds.

    `authorize` decides who may use the gateway, `choose` which provider and model a request goes to, and `on_end` gets
    a record of each exchange when it has ended (`dragoman_server.proxy.hooks`). A `gateway` that is given has hooks of
    its own.

    Return the gateway: `reconfigure` changes its configuration. Raises `ConfigError`, and ValueError if both a gateway
    and hooks are given.
    """
    gateway = _gateway(config, gateway, Hooks(authorize, choose, on_end))
    _mount(app, gateway, prefix, drain, alone=False)
    return gateway


def _gateway(config: Config, given: Gateway | None, hooks: Hooks[User]) -> Gateway:
    """Return the gateway that was given, or a new one; problems that are no errors are logged."""
    if given is not None:
        if hooks != NO_HOOKS:
            raise ValueError("a gateway has its own hooks: pass them as Gateway(config, hooks=Hooks(...))")
        return given
    gateway = Gateway(config, hooks=hooks)
    for sentence in remarks(config):
        log.warning("%s", sentence)
    return gateway


def _mount(app: web.Application, gateway: Gateway, prefix: str, drain: float, *, alone: bool) -> None:
    """Add the endpoints. If the application is the gateway `alone`, each response has its name as `server`."""
    prefix = prefix.rstrip("/")
    others = set(app.router.resources())
    endpoints = add_paths(app, prefix, gateway)
    if gateway.cors:
        _add_cors(app, gateway, set(app.router.resources()) - others)
    console = None
    if gateway.config.server.ui:
        from dragoman_server.endpoints.console.console import Console  # 0.8 MB of memory, which few gateways need

        console = Console(gateway)
        console.mount(app, prefix)  # not with the others: no page of another origin may use it
    _show_host(gateway, console)
    if prefix:
        add_unknown_path(app, prefix)

    async def life(_: web.Application) -> AsyncIterator[None]:
        if vocabulary_installed():
            await endpoints.get("count_tokens:TokenCounts").warm()
        gateway.open()
        try:
            await gateway.open_stores()
            yield
        finally:  # also if a store cannot be opened, and if the loop ends without a cleanup of the application
            await gateway.close()

    async def stop(_: web.Application) -> None:
        await gateway.stop(drain)

    # The application that embeds the gateway answers for its other paths.
    own = None if alone else frozenset(set(app.router.resources()) - others)
    app.cleanup_ctx.append(life)
    # Before aiohttp stops the server, which would close open connections without an error in their streams.
    app.on_shutdown.append(stop)
    app.on_response_prepare.append(partial(_complete, gateway, own))


def _show_host(gateway: Gateway, console: Console | None) -> None:
    """Let other workers and hosts read the state and the receipts of this process."""
    states: ProcessStates | None = None

    def state() -> Json:
        nonlocal states
        if states is None:
            from dragoman_server.endpoints.hosts.process_state import ProcessStates  # imported by the first request

            states = ProcessStates(gateway)
        return states.state()

    gateway.state = state
    if gateway.hosts is not None:
        from dragoman_server.endpoints.hosts.views import HostViews

        gateway.hosts.views = HostViews(gateway, gateway.hosts, console.recording if console else lambda _: None)


async def _complete(
    gateway: Gateway, own: frozenset[AbstractResource] | None, request: web.Request, response: web.StreamResponse
) -> None:
    """Complete a response before its head is sent. `own` has the gateway's resources; None if all are its own."""
    if own is None or request.match_info.route.resource in own:
        fails = response.status >= 400
        if (fails or request.method != "POST") and is_decompressed(request) and not request.content.is_eof():
            # The body is not read. A server with `auto_decompress` would decompress it in one turn, to drop it.
            response.headers[hdrs.CONNECTION] = "close"
            abandon_body(request)
        if fails:
            _record_rejection(gateway, request, response)
    if own is None:
        response.headers[hdrs.SERVER] = SOFTWARE  # aiohttp's own names its version and Python's
    if gateway.leaving:
        mark_last_reply(response)


def _record_rejection(gateway: Gateway, request: web.Request, response: web.StreamResponse) -> None:
    """Record the request, if it has no receipt."""
    failure = response.get(REJECTION)
    if failure is not None:
        own_id = response.headers.get(OWN_ID, "")
        caller = partial(gateway.services.named_keys.name_in, request.headers)
        gateway.services.rejections.record(request.method, request.path, response.status, failure, own_id, caller)


def _add_cors(app: web.Application, gateway: Gateway, resources: set[AbstractResource]) -> None:
    """Allow the web pages of `server.cors_origins` to use these resources."""

    async def preflight(request: web.Request) -> web.Response:
        return await gateway.cors.preflight(request, gateway.services.new_id())

    async def mark(request: web.Request, response: web.StreamResponse) -> None:
        if request.match_info.route.resource in resources:
            gateway.cors.mark(request, response)

    for resource in resources:
        if isinstance(resource, web.Resource) and not any(route.method == "*" for route in resource):
            resource.add_route("OPTIONS", preflight)
    app.on_response_prepare.append(mark)


def make_app(
    config: Config,
    *,
    gateway: Gateway | None = None,
    drain: float = 10.0,
    on_end: OnEnd[User] | None = None,
    authorize: Authorize[User] | None = None,
    choose: Choose[User] | None = None,
) -> web.Application:
    """Return an application that is the gateway only. The arguments are those of `setup`."""
    app = web.Application()
    gateway = _gateway(config, gateway, Hooks(authorize, choose, on_end))
    _mount(app, gateway, "", drain, alone=True)
    app.router.add_route("HEAD", "/", gateway.health)
    app.router.add_get("/", gateway.health, allow_head=False)
    add_unknown_path(app, "")
    if config.simulated:
        app.on_response_prepare.append(_mark_simulated)
    return app


async def _mark_simulated(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[SIMULATED_HEADER] = "1"
