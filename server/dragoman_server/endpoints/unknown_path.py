"""The response to a path that has no endpoint, in a form that the SDKs can parse (mapping §12.3)."""

from __future__ import annotations

from aiohttp import web

from dragoman.errors import FailureKind
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.endpoints.paths import COUNT_PATHS
from dragoman_server.observability.rejections import METHOD, PATH
from dragoman_server.proxy.error_response import client_failure, error_response, infer_dialect, new_request_id
from dragoman_server.proxy.request_body import handle_expect

_ANY_PATH = "/{path:(?s:.*)}"
"""The pattern of all paths, also of those with a line break."""
_ENDPOINTS = (*(client.path for client in CLIENT_DIALECTS), *COUNT_PATHS, "models", *FORWARDED)


def add_unknown_path(app: web.Application, prefix: str) -> None:
    """Add the endpoint of all other paths below `prefix`, as the last one.

    A middleware would cost each request time, and each open stream one or two frames.
    """
    app.router.add_route("*", prefix + _ANY_PATH, _unknown_path, expect_handler=handle_expect)


async def _unknown_path(request: web.Request) -> web.Response:
    """Return a 404 or a 405."""
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
    for endpoint in _ENDPOINTS:
        if path.rstrip("/").endswith(f"/{endpoint}"):
            right = f"{prefix}/v1/{endpoint}"
            return f", but {right}: the base URL of OpenAI's clients ends in /v1, that of Anthropic's does not"
    return ""
