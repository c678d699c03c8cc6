"""The gateway as an aiohttp application, or mounted in another one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.web import AbstractResource

from dragoman.errors import Failure, FailureKind
from dragoman_server.config.lint import remarks
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.count_tokens import Counting
from dragoman_server.endpoints.diagnostics import Inspection
from dragoman_server.endpoints.not_implemented import no_websocket, not_served
from dragoman_server.proxy.error_response import SOFTWARE, asked_in, error_response, new_request_id
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.request_body import expected
from dragoman_server.workers.drain import mark_last_reply

log = logging.getLogger("dragoman")
_FORMS = ("/v1/{}", "/v1/{}/", "/v1//{}", "//v1/{}")
"""Paths of an endpoint: as it is, with a slash at its end, and what clients make of a base URL with one at its end."""

SIMULATED_HEADER = "x-dragoman-simulated"
"""Marks the replies of a gateway whose upstream is the simulated one."""


def setup(
    app: web.Application, config: Config, *, prefix: str = "", gateway: Gateway | None = None, drain: float = 10.0
) -> Gateway:
    """Mount the gateway in `app` below `prefix` ("/llm", say). Several may be mounted in one app.

    The gateway opens and closes with the app. A client that hangs up cancels its upstream at once when the server runs
    with `handler_cancellation=True` (as `dragoman serve` does), else within a second. When the app stops, open replies
    get `drain` seconds. Raises `ConfigError`.
    """
    gateway = gateway or _made(config)
    _mount(app, gateway, prefix, drain, alone=False)
    return gateway


def _made(config: Config) -> Gateway:
    """A gateway whose remarks on its configuration are logged."""
    gateway = Gateway(config)
    for sentence in remarks(config):
        log.warning("%s", sentence)
    return gateway


def _mount(app: web.Application, gateway: Gateway, prefix: str, drain: float, *, alone: bool) -> None:
    """Add the endpoints. `alone`: every reply of the application is the gateway's, and says so."""
    prefix = prefix.rstrip("/")
    others = set(app.router.resources())
    counting = Counting(gateway)
    for path, endpoint in (
        ("chat/completions", gateway.chat),
        ("messages", gateway.messages),
        ("responses", gateway.responses),
        ("messages/count_tokens", counting.messages),
        ("responses/input_tokens", counting.responses),
    ):
        for form in _FORMS:
            app.router.add_post(prefix + form.format(path), endpoint, expect_handler=expected)
    _add_unserved(app, prefix, gateway)
    inspection = Inspection(gateway)
    app.router.add_post(f"{prefix}/v1/dragoman/explain", inspection.explain, expect_handler=expected)
    app.router.add_get(f"{prefix}/v1/dragoman/receipts/{{request_id}}", inspection.receipt)
    for form in _FORMS:
        app.router.add_get(prefix + form.format("models"), gateway.models)
    app.router.add_get(f"{prefix}/v1/models/{{name:.+}}", gateway.models)
    app.router.add_get(f"{prefix}/health", gateway.health)
    app.router.add_get(f"{prefix}/metrics", inspection.metrics)
    if gateway.cors:
        _share(app, gateway, set(app.router.resources()) - others)
    if prefix:
        app.router.add_route("*", f"{prefix}/{{path:.*}}", _nowhere, expect_handler=expected)

    async def life(_: web.Application) -> AsyncIterator[None]:
        await counting.warm()
        gateway.open()
        yield
        await gateway.close()

    async def stop(_: web.Application) -> None:
        await gateway.stop(drain)

    async def complete(_: web.Request, response: web.StreamResponse) -> None:
        if alone:
            response.headers["server"] = SOFTWARE  # aiohttp's own names its version and Python's
        if gateway.stopping:
            mark_last_reply(response)

    app.cleanup_ctx.append(life)
    # Before the server stops by itself: it would cut what is still open without a word.
    app.on_shutdown.append(stop)
    app.on_response_prepare.append(complete)


def _add_unserved(app: web.Application, prefix: str, gateway: Gateway) -> None:
    async def stored(request: web.Request) -> web.Response:
        return not_served(gateway.new_id(), request)

    async def websocket(request: web.Request) -> web.Response:
        return no_websocket(gateway.new_id(), request)

    for path in ("responses/{rest:.+}", "conversations", "conversations/{rest:.+}"):
        app.router.add_route("*", f"{prefix}/v1/{path}", stored)
    app.router.add_get(f"{prefix}/v1/responses", websocket, allow_head=False)


def _share(app: web.Application, gateway: Gateway, resources: set[AbstractResource]) -> None:
    """Let the web pages of `server.cors_origins` use these resources."""

    async def preflight(request: web.Request) -> web.Response:
        return await gateway.cors.preflight(request, gateway.new_id())

    async def mark(request: web.Request, response: web.StreamResponse) -> None:
        if request.match_info.route.resource in resources:
            gateway.cors.mark(request, response)

    for resource in resources:
        if isinstance(resource, web.Resource) and not any(route.method == "*" for route in resource):
            resource.add_route("OPTIONS", preflight)
    app.on_response_prepare.append(mark)


def make_app(config: Config, *, gateway: Gateway | None = None, drain: float = 10.0) -> web.Application:
    """The gateway as an application of its own."""
    app = web.Application()
    gateway = gateway or _made(config)
    _mount(app, gateway, "", drain, alone=True)
    app.router.add_route("HEAD", "/", gateway.health)
    app.router.add_get("/", gateway.health, allow_head=False)
    # Last, for what is nowhere else. A middleware that told the router's refusals would be a frame or two of each open
    # stream, and some of each request's time.
    app.router.add_route("*", "/{path:.*}", _nowhere, expect_handler=expected)
    if config.simulated:
        app.on_response_prepare.append(_mark_simulated)
    return app


async def _mark_simulated(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[SIMULATED_HEADER] = "1"


async def _nowhere(request: web.Request) -> web.Response:
    """What the router would refuse, in the envelope that the SDKs can read (mapping §12.3)."""
    methods: set[str] = set()
    for resource in request.app.router.resources():
        if resource is not request.match_info.route.resource:
            methods |= (await resource.resolve(request))[1]
    allow = ",".join(sorted(methods))
    if allow:
        message = f"{request.method} is not allowed on {request.path}; allowed: {allow}"
        failure = Failure(FailureKind.INVALID_REQUEST, message, 405)
    else:
        message = f"there is no {request.path} here{_meant(request.path)}"
        failure = Failure(FailureKind.NOT_FOUND, message, 404)
    response = error_response(asked_in(request), failure, new_request_id())
    response.set_status(failure.status)
    if allow:
        response.headers["allow"] = allow
    return response


def _meant(path: str) -> str:
    """What to do about a base URL that is right but for its /v1, which the vendors' clients want differently."""
    for endpoint in ("chat/completions", "messages", "messages/count_tokens", "responses", "models"):
        if path.rstrip("/").endswith(f"/{endpoint}"):
            return f", but /v1/{endpoint}: the base URL of OpenAI's clients ends in /v1, that of Anthropic's does not"
    return ""
