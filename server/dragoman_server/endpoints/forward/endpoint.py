"""The forwarded endpoints: a request goes to its model's provider, and the reply comes back, both untranslated.

Keys, limits, receipts, metrics, logs, timeouts and the end of the gateway are those of the other endpoints.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from functools import partial

from aiohttp import web

from dragoman import DragomanError, Translation
from dragoman.aio import ClientGone
from dragoman_server.config.forwarded_endpoints import FORWARDED
from dragoman_server.endpoints.forward.attempts import ForwardAttempts
from dragoman_server.endpoints.forward.reply import ForwardedReply, Sent
from dragoman_server.endpoints.forward.request import (
    choose_candidate,
    choose_target,
    exchange_of,
    read_body,
    upstream_request,
)
from dragoman_server.observability.access_log import exchange_text, request_line
from dragoman_server.observability.logs import log_request
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.error_response import CLIENT_GONE
from dragoman_server.proxy.exchange import Exchange
from dragoman_server.proxy.gateway import Endpoint, Gateway
from dragoman_server.proxy.limits import NO_RATE_HEADERS, admit, estimate_by_size, with_price
from dragoman_server.proxy.request_failure import answer_defect, answer_error, end_abandoned

log = logging.getLogger("dragoman")


class ForwardedEndpoints:
    """The forwarded endpoints of one gateway: `paths` has their handlers, by path below `/v1`."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.paths: Mapping[str, Endpoint] = {path: partial(self._answer, endpoint=path) for path in FORWARDED}

    async def _answer(self, request: web.Request, endpoint: str) -> web.StreamResponse:
        receipt = self._gateway.new_receipt(request, endpoint)
        try:
            sent = await self._forward(request, receipt)
            self._finish(receipt, sent)
            return sent.response
        except DragomanError as error:
            gateway = self._gateway
            return answer_error(receipt, await gateway.count_rejected(receipt, error), gateway.loaded.upstream_warnings)
        except (ClientGone, ConnectionError):
            # The client has disconnected. Errors of the upstream's connection are UpstreamErrors.
            return web.Response(status=CLIENT_GONE)
        except Exception:
            # A defect of Dragoman: the client gets an error without the details, which are logged.
            return answer_defect(receipt)
        finally:
            if receipt.ended == "open":  # the client has disconnected, which may have cancelled this
                end_abandoned(receipt, "abandoned")
            if receipt.capture is not None:
                receipt.capture.close(receipt)
                receipt.capture = None

    async def _forward(self, request: web.Request, receipt: Receipt) -> Sent:
        """Send the request upstream and the reply to the client. Raises DragomanError before the reply has begun."""
        gateway, endpoint = self._gateway, receipt.endpoint
        caller = await gateway.admit(request)
        receipt.owner, receipt.principal, receipt.key = caller
        gateway.receipts.file(receipt)
        gateway.begin_capture(request, receipt, caller)
        loaded = gateway.loaded
        if (known := loaded.client_profiles.recognise(request.headers)) is not None:
            receipt.client_profile = known.name
        client = await read_body(request, receipt, gateway.bodies, loaded.config.server.limits)
        receipt.model = client.model or None
        target = await choose_target(request, receipt, loaded, gateway.hooks, client.model)
        address = (request.remote or "").encode()
        target, ranking, candidate = choose_candidate(request, target, receipt, gateway.routing, address)
        translation = await exchange_of(request, receipt, loaded, target, client, time.time)
        if gateway.usage.writes and client.form is None:
            translation.context.input_estimate = estimate_by_size(translation.body)
        limits = NO_RATE_HEADERS
        key, accounts = receipt.key, gateway.named_keys.accounts
        if key is not None and accounts is not None and key.limits.active is not None:
            limits = await admit(accounts, key, receipt, time.time())
            ranking = with_price(accounts, key, ranking)
        requests = gateway.upstream_requests
        call, upload = upstream_request(requests, request, loaded, target, translation, client, endpoint)
        if receipt.trace is not None:
            call = receipt.trace.start_attempt(call, target.provider, translation.upstream_model)
        transport = gateway.upstream.transport
        if receipt.capture is not None:
            from dragoman_server.endpoints.forward.captured_reply import recording_transport

            transport = recording_transport(transport, receipt, receipt.capture)
        if candidate is None:
            del client
            async with gateway.upstream.opened(call, request, upload, transport=transport) as (answer, timers):
                return await _reply(request, receipt, translation, limits).send(answer, timers)
        exchange = Exchange(receipt.client, translation, target.provider.name, receipt, loaded.upstream_warnings)
        attempts = ForwardAttempts(
            *(request, client, upload, receipt, exchange, loaded, target, ranking, candidate),
            *(gateway.routing, transport, requests, time.time),
            estimates=gateway.usage.writes,
            address=address,
        )
        del client
        async with gateway.upstream.opened(call, request, send=attempts.open) as (answer, timers):
            return await _reply(request, receipt, exchange.translation, limits).send(answer, timers)

    def _finish(self, receipt: Receipt, sent: Sent) -> None:
        """Log the request's line and complete the receipt."""
        failure, status = sent.failure, sent.response.status
        level, note = logging.INFO, ""
        if failure is not None:
            level, note = self._gateway.loaded.upstream_warnings.level(receipt.provider, failure)
        if log.isEnabledFor(level) and receipt.translation is not None:
            refused = f"refused with {status if failure is None else failure.status}"
            how = {"refused": refused, "failed": "failed in the reply"}.get(sent.ended, sent.ended)
            summary = f"{exchange_text(receipt, receipt.translation)} {how}"
            log_request(level, request_line(receipt, summary, sent.ended, status, error=failure, note=note))
        receipt.end(sent.ended, status, failure)


def _reply(
    request: web.Request, receipt: Receipt, translation: Translation, limits: Mapping[str, str]
) -> ForwardedReply:
    """Return what sends the reply, and records it if the exchange is captured."""
    if receipt.capture is None:
        return ForwardedReply(request, receipt, translation, limits)
    from dragoman_server.endpoints.forward.captured_reply import CapturedReply

    return CapturedReply(request, receipt, translation, limits, recording=receipt.capture)
