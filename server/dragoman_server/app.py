"""The gateway as an aiohttp application, or mounted in another application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial

from aiohttp import hdrs, web
from aiohttp.web import AbstractResource

from dragoman import Dialect, DragomanError
from dragoman.aio import abandon_body, is_decompressed
from dragoman.errors import FailureKind
from dragoman.gateway import vocabulary_installed
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.config.lint import remarks
from dragoman_server.config.schema import Config
from dragoman_server.endpoints import lazy_endpoints
from dragoman_server.endpoints.model_list import ModelList
from dragoman_server.endpoints.not_implemented import stored_objects
from dragoman_server.endpoints.readiness import Readiness
from dragoman_server.observability.rejections import METHOD, PATH
from dragoman_server.proxy.error_response import (
    OWN_ID,
    REJECTION,
    SOFTWARE,
    client_failure,
    error_response,
    infer_dialect,
    new_request_id,
)
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.hooks import NO_HOOKS, Authorize, Choose, Hooks, OnEnd, User
from dragoman_server.proxy.request_body import handle_expect
from dragoman_server.steps.admit import identify
from dragoman_server.workers.drain import mark_last_reply

log = logging.getLogger("dragoman")
_FORMS = ("/v1/{}", "/v1/{}/", "/v1//{}", "//v1/{}")
"""Forms of an endpoint's path: plain, with a final slash, and those of clients whose base URL ends in a slash."""
ANY_PATH = "/{path:(?s:.*)}"
"""The pattern of all paths, also of those with a line break."""
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

    Returns the gateway: `reconfigure` changes its configuration. Raises `ConfigError`, and ValueError if both a gateway
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
    counting, compacting = lazy_endpoints.token_counts(gateway), lazy_endpoints.compactions(gateway)
    chat, messages, responses = gateway.chat, gateway.messages, gateway.responses
    if gateway.config.server.resume.seconds:
        from dragoman_server.proxy.resumable.streams import ResumableStreams

        gateway.resumable = resumable = ResumableStreams(gateway.services, gateway.handler)
        chat, messages = resumable.endpoint(chat, Dialect.CHAT), resumable.endpoint(messages, Dialect.MESSAGES)
        responses = resumable.endpoint(responses, Dialect.RESPONSES)
    for path, endpoint in (
        ("chat/completions", chat),
        ("messages", messages),
        ("responses", responses),
        ("messages/count_tokens", counting.endpoint(lambda it: it.messages)),
        ("responses/input_tokens", counting.endpoint(lambda it: it.responses)),
        ("responses/compact", compacting.endpoint(lambda it: it.compact)),
        *gateway.forwarded.items(),
    ):
        for form in _FORMS:
            app.router.add_post(prefix + form.format(path), endpoint, expect_handler=handle_expect)
    if gateway.services.responses.stores:
        conversations = lazy_endpoints.conversations(gateway)
        for method, path, find in lazy_endpoints.CONVERSATIONS:
            app.router.add_route(method, prefix + path, conversations.endpoint(find))
        tree = lazy_endpoints.conversation_tree(gateway).endpoint(lambda it: it.get)
        app.router.add_get(f"{prefix}/v1/dragoman/conversations/{{id}}/tree", tree, allow_head=False)
    stored = lazy_endpoints.stored_responses(gateway)
    one = f"{prefix}/v1/responses/{{id}}"
    app.router.add_get(one, stored.endpoint(lambda it: it.get), allow_head=False)
    app.router.add_delete(one, stored.endpoint(lambda it: it.delete))
    app.router.add_post(f"{one}/cancel", stored.endpoint(lambda it: it.cancel))
    app.router.add_get(f"{one}/input_items", stored.endpoint(lambda it: it.input_items), allow_head=False)
    _add_not_implemented(app, prefix, gateway)
    websocket = lazy_endpoints.websocket(gateway).endpoint(lambda it: it.get)
    for form in _FORMS:
        app.router.add_get(prefix + form.format("responses"), websocket, allow_head=False)
    inspection, captures = lazy_endpoints.diagnostics(gateway), lazy_endpoints.captures(gateway)
    models = ModelList(gateway.services)
    app.router.add_post(
        f"{prefix}/v1/dragoman/explain", inspection.endpoint(lambda it: it.explain), expect_handler=handle_expect
    )
    app.router.add_get(f"{prefix}/v1/dragoman/receipts", inspection.endpoint(lambda it: it.receipts))
    app.router.add_get(f"{prefix}/v1/dragoman/receipts/{{request_id}}", inspection.endpoint(lambda it: it.receipt))
    app.router.add_get(f"{prefix}/v1/dragoman/captures", captures.endpoint(lambda it: it.list))
    app.router.add_get(f"{prefix}/v1/dragoman/captures/{{capture_id}}", captures.endpoint(lambda it: it.get))
    for form in _FORMS:
        app.router.add_get(prefix + form.format("models"), models.get)
    app.router.add_get(f"{prefix}/v1/models/{{name:.+}}", models.get)
    app.router.add_get(f"{prefix}/health", gateway.health)
    app.router.add_get(f"{prefix}/ready", Readiness(gateway).get)
    app.router.add_get(f"{prefix}/metrics", inspection.endpoint(lambda it: it.metrics))
    if gateway.cors:
        _add_cors(app, gateway, set(app.router.resources()) - others)
    if gateway.config.server.ui:
        from dragoman_server.endpoints.console.console import Console  # half a megabyte, which few gateways need

        Console(gateway).mount(app, prefix)  # not with the others: no page of another origin may use it
    if prefix:
        app.router.add_route("*", prefix + ANY_PATH, _unknown_path, expect_handler=handle_expect)

    # The application that embeds the gateway answers for its other paths.
    own = None if alone else set(app.router.resources()) - others

    async def life(_: web.Application) -> AsyncIterator[None]:
        if vocabulary_installed():
            await counting.create().warm()
        gateway.open()
        try:
            await gateway.open_stores()
            yield
        finally:  # also if a store cannot be opened, and if the loop ends without a cleanup of the application
            if gateway.resumable is not None:
                await gateway.resumable.close()
            await gateway.close()

    async def stop(_: web.Application) -> None:
        if gateway.resumable is not None:
            gateway.resumable.stop()
        await gateway.stop(drain)

    async def complete(request: web.Request, response: web.StreamResponse) -> None:
        if (
            (response.status >= 400 or request.method != "POST")
            and is_decompressed(request)
            and not request.content.is_eof()
            and (own is None or request.match_info.route.resource in own)
        ):
            # The body is not read. A server with `auto_decompress` would decompress it in one turn, to drop it.
            response.headers[hdrs.CONNECTION] = "close"
            abandon_body(request)
        if response.status >= 400 and (own is None or request.match_info.route.resource in own):
            _record_rejection(gateway, request, response)
        if alone:
            response.headers[hdrs.SERVER] = SOFTWARE  # aiohttp's own names its version and Python's
        if gateway.leaving:
            mark_last_reply(response)

    app.cleanup_ctx.append(life)
    # Before aiohttp stops the server, which would close open connections without an error in their streams.
    app.on_shutdown.append(stop)
    app.on_response_prepare.append(complete)


def _record_rejection(gateway: Gateway, request: web.Request, response: web.StreamResponse) -> None:
    """Record the request, if it has no receipt."""
    failure = response.get(REJECTION)
    if failure is not None:
        own_id = response.headers.get(OWN_ID, "")
        caller = partial(gateway.services.named_keys.name_in, request.headers)
        gateway.services.rejections.record(request.method, request.path, response.status, failure, own_id, caller)


def _add_not_implemented(app: web.Application, prefix: str, gateway: Gateway) -> None:
    async def stored(request: web.Request) -> web.Response:
        # They reveal nothing, but every path below /v1 requires the key, so that none is forgotten.
        request_id = gateway.services.new_id()
        try:
            await identify(gateway.services, request)
        except DragomanError as error:
            return error_response(Dialect.RESPONSES, error.failure, request_id)
        return stored_objects(request_id, request, stores=gateway.services.responses.stores)

    for path in ("responses/{rest:.+}", "conversations", "conversations/{rest:.+}"):
        app.router.add_route("*", f"{prefix}/v1/{path}", stored)


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
    # The last route, for all other paths. A middleware for unknown paths would cost each request time, and each open
    # stream one or two frames.
    app.router.add_route("*", ANY_PATH, _unknown_path, expect_handler=handle_expect)
    if config.simulated:
        app.on_response_prepare.append(_mark_simulated)
    return app


async def _mark_simulated(_: web.Request, response: web.StreamResponse) -> None:
    response.headers[SIMULATED_HEADER] = "1"


async def _unknown_path(request: web.Request) -> web.Response:
    """Return a 404 or a 405 in a form that the SDKs can parse (mapping §12.3)."""
    methods: set[str] = set()
    for resource in request.app.router.resources():
        if resource is not request.match_info.route.resource:
            methods |= (await resource.resolve(request))[1]
    allow = ",".join(sorted(methods))
    # Where an ASGI application has mounted the gateway, whose own paths are without it.
    mount = request.transport.get_extra_info("root_path", "") if request.transport is not None else ""
    if allow:
        message = f"{request.method} is not allowed on {mount}{request.path}; allowed: {allow}"
        failure, reason = client_failure(FailureKind.INVALID_REQUEST, message, 405), METHOD
    else:
        message = f"there is no {mount}{request.path} here{_base_url_hint(request, mount)}"
        failure, reason = client_failure(FailureKind.NOT_FOUND, message, 404), PATH
    failure.reason = reason
    response = error_response(infer_dialect(request), failure, new_request_id())
    response.set_status(failure.status)
    if allow:
        response.headers["allow"] = allow
    return response


def _base_url_hint(request: web.Request, mount: str) -> str:
    """Return a hint for a path whose base URL lacks `/v1` or has it twice; the vendors' clients differ in this."""
    path = request.path
    prefix = mount + path.removesuffix(f"/{request.match_info.get('path', '')}")
    for endpoint in ("chat/completions", "messages", "messages/count_tokens", "responses", "models", *FORWARDED):
        if path.rstrip("/").endswith(f"/{endpoint}"):
            right = f"{prefix}/v1/{endpoint}"
            return f", but {right}: the base URL of OpenAI's clients ends in /v1, that of Anthropic's does not"
    return ""
