"""Responses that an upstream stores: requests about them go to the provider that issued them, untranslated."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from dragoman import Dialect
from dragoman.aio import UpstreamRequest
from dragoman.gateway import forward
from dragoman.threads import is_response_id
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.forward.reply import ForwardedReply
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.auth import Caller, outbound_headers
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.limits import NO_RATE_HEADERS
from dragoman_server.proxy.upstream_request import SENDER

_NOT_STREAMED: Final = ("", "false", "0")


def issuer_of_request(gateway: Gateway, request: web.Request, caller: Caller) -> Provider | None:
    """Return the provider that issued the response in the path to this client, or None if that is not known."""
    response_id = request.match_info.get("id", "")
    issuer = gateway.routing.issuers.find(caller.owner, response_id) if is_response_id(response_id) else None
    return gateway.router.issuing_provider(issuer) if issuer is not None else None


async def forward_to_issuer(
    gateway: Gateway, request: web.Request, caller: Caller, provider: Provider, request_id: str, what: str
) -> web.StreamResponse:
    """Send a request about a stored response to its provider, and return the response. Raises DragomanError.

    `what` follows the id in the path, such as `/cancel`.
    """
    loaded = gateway.loaded
    server = loaded.config.server
    receipt = Receipt(request_id, Dialect.RESPONSES, int(gateway.now()), caller.owner, key=caller.key)  # not filed
    translation = forward(
        *(b"", None),
        model="",
        upstream_model="",
        limits=server.limits,
        created=receipt.created,
        request_id=request_id,
        secrets=loaded.secrets_of(provider, request.headers),
        own_key=provider.own_key,
    )
    path = f"responses/{request.match_info['id']}{what}"
    headers = {
        SENDER: gateway.upstream_requests.sender,
        "accept": "application/json",
        **outbound_headers(provider, request.headers, same_dialect=True),
    }
    stream = request.query.get("stream", "").lower() not in _NOT_STREAMED
    url = provider.endpoint(path, request.rel_url.raw_query_string)
    call = UpstreamRequest(url, headers, b"", stream, server.timeouts, request.method)
    async with gateway.upstream.opened(call, request) as (answer, timers):
        return (await ForwardedReply(request, receipt, translation, NO_RATE_HEADERS).send(answer, timers)).response
