"""Responses that an upstream stores: requests about them go to the provider that issued them, untranslated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web

from dragoman.aio import UpstreamResponse
from dragoman.gateway import STORED_DIALECT, ReplyOptions, forward
from dragoman.threads import is_response_id, response_not_found
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.forwarded_reply import ForwardedReply
from dragoman_server.proxy.issuer_search import find_provider, only_elsewhere
from dragoman_server.proxy.upstream_runs import WatchedEnd, book_end
from dragoman_server.receipt import Receipt
from dragoman_server.routing.response_issuers import ELSEWHERE
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services

_NOT_STREAMED: Final = ("", "false", "0")


async def issuer_of_request(services: Services, request: web.Request, caller: Caller) -> Provider | None:
    """Return the provider that issued the response in the path to this client, or None if that is not known."""
    response_id = request.match_info.get("id", "")
    issuer = None
    if is_response_id(response_id):
        issuer = await services.routing.issuers.look_up(caller.owner, response_id)
    return services.router.issuing_provider(issuer) if issuer is not None else None


async def find_issuer(services: Services, request: web.Request, caller: Caller) -> Provider | None:
    """Return the provider that has the response in the path, whose issuer is not known; None without one.

    Raises DragomanError (404) if providers may have it, but must not be asked.
    """
    response_id = request.match_info.get("id", "")
    known = services.routing.issuers
    if not is_response_id(response_id) or known.find(caller.owner, response_id) is not None:
        return None
    issuers = services.router.issuers()
    provider = await find_provider(services, caller.owner, response_id, request.headers, issuers)
    if provider is None and known.shared is None:
        among = [each for _, each in issuers]
        if only_elsewhere(services, caller.owner, request.headers, among):
            raise response_not_found(response_id, ELSEWHERE)
    return provider


async def forward_to_issuer(
    services: Services, request: web.Request, caller: Caller, provider: Provider, request_id: str, what: str
) -> web.StreamResponse:
    """Send a request about a stored response to its provider, and return the response. Raises DragomanError.

    `what` follows the id in the path, such as `/cancel`.
    """
    response_id = request.match_info["id"]
    book = partial(book_end, services, caller.owner, response_id)
    watch = partial(WatchedEnd, owner=caller.owner, book=book, limit=services.config.server.limits.sse_frame)
    path = f"responses/{response_id}{what}"
    return await forward_about(services, request, caller, provider, request_id, path, watch=watch)


async def forward_about(
    services: Services,
    request: web.Request,
    caller: Caller,
    provider: Provider,
    request_id: str,
    path: str,
    body: bytes = b"",
    watch: Callable[[UpstreamResponse], UpstreamResponse] | None = None,
) -> web.StreamResponse:
    """Send a request about what a provider stores to a path there, and return the response. Raises DragomanError.

    `watch` returns the response that is read in place of the provider's.
    """
    loaded = services.loaded
    server = loaded.config.server
    scope = RequestScope(services, Receipt(request_id, STORED_DIALECT, int(services.now())))  # no receipt is filed
    scope.admitted(caller)
    scope.receipt.translation = forward(
        b"",
        None,
        model="",
        upstream_model="",
        limits=server.limits,
        options=ReplyOptions(
            created=scope.receipt.created,
            request_id=request_id,
            secrets=loaded.secrets_of(provider, request.headers),
            own_key=provider.own_key,
        ),
    )
    headers = services.upstream_requests.headers_about(provider, request.headers)
    if body:
        headers["content-type"] = "application/json"
    stream = request.query.get("stream", "").lower() not in _NOT_STREAMED
    url = provider.endpoint(path, request.rel_url.raw_query_string)
    call = request_to(provider, url, headers, body, stream, server.timeouts, request.method)
    async with services.upstream.opened(call, request) as (answer, timers):
        watched = watch(answer) if watch is not None else answer
        return (await ForwardedReply(scope).send(request, watched, timers)).response
