"""The steps of a request before it is sent: admission, routing, translation, limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from dragoman import Dialect
from dragoman.aio import UpstreamRequest
from dragoman.gateway import PromptDigest, quote
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.attempts import Attempts
from dragoman_server.proxy.exchange import Exchange, OpenStream
from dragoman_server.proxy.limits import NO_RATE_HEADERS, admit, estimate_by_size, with_price
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.output_cap_retry import OutputCapTransport
from dragoman_server.proxy.resolve_request import resolve_request
from dragoman_server.proxy.upstream_calls import Send
from dragoman_server.routing.plan import Candidate

if TYPE_CHECKING:
    from dragoman_server.proxy.gateway import Gateway

log = logging.getLogger("dragoman")


async def prepare_request(
    gateway: Gateway, request: web.Request, receipt: Receipt, open_stream: OpenStream | None
) -> tuple[UpstreamRequest, Exchange, Send]:
    """Return the upstream request, the exchange that handles its response, and what sends it.

    That is the transport, or the attempts of a route that may have several. `open_stream` is that of `Exchange`. Raises
    DragomanError, and then nothing was sent.
    """
    caller = await gateway.admit(request)
    receipt.owner, receipt.principal, receipt.key = caller
    gateway.receipts.file(receipt)
    gateway.begin_capture(request, receipt, caller)
    loaded, responses = gateway.loaded, receipt.client is Dialect.RESPONSES
    target, translation, body, payload, ranking, candidate, conversation = await resolve_request(
        request,
        receipt,
        loaded,
        gateway.bodies,
        gateway.hooks,
        clock=gateway.now,
        routing=gateway.routing,
        stored=gateway.stored if responses else None,
        compactions=gateway.compactions if responses else None,
    )
    provider = target.provider
    gateway.capture_validated(request, receipt, caller, body)
    if target.warning:
        log.warning("%s %s", receipt.request_id, target.warning)
    if gateway.usage.writes and not translation.context.input_estimate:  # a body that passes through
        translation.context.input_estimate = estimate_by_size(translation.body)
    limits: Mapping[str, str] = NO_RATE_HEADERS
    key, accounts = receipt.key, gateway.named_keys.accounts
    if key is not None and accounts is not None and key.limits.active is not None:
        limits = await admit(accounts, key, receipt, gateway.now())
        ranking = with_price(accounts, key, ranking) if ranking is not None else None
    if gateway.prompt_cache:
        digest = partial(PromptDigest.of, translation.direction.upstream.dialect, translation.body)
        prompt = await compute(len(translation.body), digest, receipt.owner, request)
        receipt.cache = gateway.prompt_cache.compare(
            prompt, translation, payload, request.headers, receipt.owner, receipt.request_id
        )
    transport = gateway.upstream.transport
    warnings = loaded.upstream_warnings
    if receipt.capture is None:
        exchange = Exchange(receipt.client, translation, provider.name, receipt, warnings, None, limits)
        exchange.open_stream = open_stream
    else:
        from dragoman_server.proxy.captured_exchange import CapturedExchange

        captured = exchange = CapturedExchange(
            *(receipt.client, translation, provider.name, receipt, warnings),
            limits=limits,
            open_stream=open_stream,
            recording=receipt.capture,
        )
        transport = captured.transport(transport)
    if receipt.client is not Dialect.MESSAGES and (provider.dialect is Dialect.MESSAGES or ranking is not None):
        transport = OutputCapTransport(transport, exchange, gateway.learn_output_limit)
    exchange.models_at = gateway.known_models.names_at
    call = gateway.upstream_requests.build(request, translation, provider, loaded)
    if receipt.trace is not None:
        call = receipt.trace.start_attempt(call, provider, translation.upstream_model)
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "%s %s %s of %d bytes, client profile %s; model %s by route %s to %s at %s, %d bytes, profile %s",
            *(receipt.request_id, receipt.client, "stream" if translation.stream else "request", len(body)),
            *(receipt.client_profile or "none", quote(translation.model), quote(target.route)),
            *(provider.name, provider.address(), len(call.body), provider.profile_name or "of its own"),
        )
    if responses and (provider.dialect is Dialect.RESPONSES or loaded.router.has_plans):
        created_at = candidate or Candidate(provider, translation.upstream_model)
        exchange.expected = gateway.routing.issuers.expect(receipt.owner, payload, created_at)
    if gateway.recorder is not None:
        transport = gateway.recorder.attach(request, receipt, exchange, transport)
    if ranking is None or candidate is None:
        return call, exchange, transport.open
    attempts = Attempts(
        *(request, body, receipt, exchange, loaded, target, ranking, candidate),
        *(gateway.routing, transport, gateway.upstream_requests, gateway.now),
        estimates=gateway.usage.writes,
        conversation=conversation,
    )
    return call, exchange, attempts.open
