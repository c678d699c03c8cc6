"""The counting endpoints: `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.

A request is translated as for sending. The upstream counts its tokens if it can. Otherwise they are estimated here,
and a response header states the method. Agents request up to fifty counts in a second (T-60), so upstreams' counts are
cached, and also that an upstream has no such endpoint (T-61).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from hashlib import blake2b

from aiohttp import web

from dragoman import Dialect, Direction, DragomanError, Failure, Translation, UpstreamError
from dragoman.aio import LongJobs, UpstreamRequest
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import COUNT_ENDPOINTS, TokenCounter, quote
from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.draft import Draft
from dragoman_server.endpoints.ttl_cache import TTLCache
from dragoman_server.observability.metric_families import COUNTS
from dragoman_server.pipeline import counted as counted_steps
from dragoman_server.pipeline import run_steps
from dragoman_server.proxy.auth import owner_at
from dragoman_server.proxy.betas import NONE, betas_of
from dragoman_server.proxy.configured_fields import count_body
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.error_response import OWN_ID, client_failure, web_response
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.limits import counted
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.reply_headers import add_loss_header
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.steps.admit import admit

log = logging.getLogger("dragoman")

ESTIMATE = "x-dragoman-estimate"
"""Header of a count that is Dragoman's estimate, with its method: `o200k_base`, `characters` or `size`."""
WAIT = 15.0
"""Longest time for an upstream's count, in seconds, as an estimate is available at once."""
REMEMBERED = 300.0
"""Seconds for which an upstream's count is cached, or that it has no such endpoint."""
KEPT = 1024
"""Most cached entries of either kind."""
THREAD_FROM = 256 * 1024
"""Size of a request, in bytes, from which its tokens are counted in a thread: it takes 10 ms and more."""
_ANSWER = 4096
"""Largest response of an upstream that is cached, in bytes."""
_NO_ENDPOINT = frozenset((404, 405, 501))
_TEMPORARY = frozenset((408, 429))


class CountSource(StrEnum):
    """The source of a count."""

    EXACT = "exact"
    REMEMBERED = "remembered"
    ESTIMATE = "estimate"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _CountRequest:
    """A request whose tokens are to be counted."""

    provider: Provider
    translation: Translation
    owner: bytes
    """The digest of the client's key; empty without keys."""


@dataclass(frozen=True, slots=True)
class _Counted:
    tokens: int
    how: CountSource
    by: str = ""
    """The method of an estimate."""
    answer: bytes = b""
    """The upstream's response body, for a client of its dialect."""


class TokenCounts:
    """The two endpoints of one gateway. `clock` returns seconds from any origin."""

    def __init__(self, gateway: Gateway, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._services = gateway.services
        self._counter = TokenCounter()
        self._jobs = LongJobs()
        self._answers: TTLCache[bytes, _Counted] = TTLCache(KEPT, REMEMBERED, clock)
        self._pending: dict[bytes, asyncio.Future[_Counted]] = {}
        """Requests to upstreams under way. An equal request waits for the same response."""
        self._without_endpoint: TTLCache[tuple[Dialect, str, str, bytes], bool] = TTLCache(KEPT, REMEMBERED, clock)

    async def warm(self) -> None:
        """Load the vocabulary if it is installed. It takes a second, so it is done before there are streams."""
        if self._counter.exact:
            await asyncio.to_thread(self._counter.warm)

    async def post(self, request: web.Request) -> web.Response:
        """`POST /v1/messages/count_tokens`, with or without `?beta=true`, and `POST /v1/responses/input_tokens`."""
        services, how, provider, client = self._services, CountSource.FAILED, "", _client_of(request)
        # No receipt is filed: counts have none.
        scope = RequestScope(services, Receipt(services.new_id(), client, 0))
        request_id = scope.receipt.request_id
        wanted: _CountRequest | None = None
        try:
            draft = Draft(request, services.loaded, is_sent=False)
            await admit(scope, draft)
            async with counted(services.named_keys.accounts, scope.caller.key, request_id, client):
                await run_steps(counted_steps(services, client), scope, draft)
                wanted = _CountRequest(draft.target.provider, scope.translation, scope.caller.owner)
                provider = wanted.provider.name
                found = await self._count(request, wanted)
            how = found.how
            response = self._response(client, found, request_id)
        except Exception as error:
            failure = error.failure if isinstance(error, DragomanError) else None
            if wanted is not None and failure is not None and failure.origin is FailureOrigin.UPSTREAM:
                response = self._failed(wanted, failure, request_id)
            else:
                if failure is not None:
                    provider = ""  # an error of the gateway itself
                response = answer_without_receipt(request, client, error, request_id)
        finally:
            services.instruments.metrics.totals.add(COUNTS, (client, provider, how))
        add_loss_header(response.headers, scope.receipt.losses)
        return response

    def _failed(self, wanted: _CountRequest, failure: Failure, request_id: str) -> web.Response:
        """Return the response for a failure of the upstream, which is logged."""
        provider, translation = wanted.provider.name, wanted.translation
        # A copy: the upstream's own body would be returned, and servers without the endpoint have other envelopes.
        error = translation.error_of(replace(failure))
        response = web_response(error, translation.direction.client.dialect, request_id)
        level, note = self._services.loaded.upstream_warnings.level(provider, failure)
        model = quote(translation.upstream_model)
        log.log(level, "%s %s did not count tokens for %s (%s)%s", request_id, provider, model, failure.status, note)
        return response

    def _response(self, client: Dialect, counted: _Counted, request_id: str) -> web.Response:
        body = counted.answer or json_dumps(COUNT_ENDPOINTS[client].write(counted.tokens))
        headers = {OWN_ID: request_id, client.request_id_header: request_id}
        if counted.by:
            headers[ESTIMATE] = counted.by
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _count(self, request: web.Request, wanted: _CountRequest) -> _Counted:
        knob, provider = wanted.translation.knobs.count_tokens, wanted.provider
        model = wanted.translation.upstream_model
        # Not the provider's name: a reload may put another upstream behind it.
        # A 404 may also mean that a key may not use the model, and the key may be the client's own.
        owner = owner_at(provider, wanted.owner, request.headers)
        place = provider.dialect, provider.base_url, model, owner
        if knob != "estimate" and _count_url(provider, model) is not None and provider.profile.counting:
            if knob == "exact":
                return await self._forwarded(request, wanted)
            if place not in self._without_endpoint:
                try:
                    return await self._forwarded(request, wanted)
                except UpstreamError as error:
                    status = error.status if isinstance(error, _UpstreamRefusal) else error.failure.status
                    if status in _NO_ENDPOINT:
                        self._without_endpoint.put(place, True)
                    elif status not in _TEMPORARY and status < 500:
                        raise
                    log.info("%s does not count tokens for %s (%s)", provider.name, quote(model), status)
        elif knob == "exact":
            why = f"the upstream {provider.name} cannot count tokens, and estimates are switched off (count_tokens)"
            raise DragomanError(client_failure(FailureKind.NOT_FOUND, why, 404))
        if len(wanted.translation.body) > THREAD_FROM:
            return await self._jobs.run(wanted.owner or request.remote, partial(self._estimated, wanted))
        return self._estimated(wanted)

    # --- by the upstream ---------------------------------------------------------------------------------------------

    async def _forwarded(self, request: web.Request, wanted: _CountRequest) -> _Counted:
        """Return the upstream's count. Raises UpstreamError."""
        translation = wanted.translation
        url = self._url(request, wanted)
        job = partial(_question, translation, wanted.provider, request.headers, url)
        body, digest = await compute(len(translation.body), job, wanted.owner, request)
        call = self._call(request, wanted, url, body)
        key = _key(digest, call, translation.direction)
        while True:
            known = self._answers.get(key)
            if known is not None:
                return known
            pending = self._pending.get(key)
            if pending is None:
                break
            await asyncio.wait((pending,))
            if not pending.cancelled():  # cancelled if its client has disconnected: then this request goes upstream
                return replace(pending.result(), how=CountSource.REMEMBERED)
        pending = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            counted = await self._fetched(request, wanted, call)
            pending.set_result(counted)
        except UpstreamError as error:
            pending.set_exception(error)
            pending.exception()  # there may be no waiter; asyncio must not log it
            raise
        finally:
            del self._pending[key]
            pending.cancel()
        if len(counted.answer) <= _ANSWER:
            self._answers.put(key, replace(counted, how=CountSource.REMEMBERED))
        return counted

    async def _fetched(self, request: web.Request, wanted: _CountRequest, call: UpstreamRequest) -> _Counted:
        """Request the upstream's count."""
        limit = self._services.config.server.limits.reply_body
        status, headers, body = await self._services.upstream.fetch(call, limit, request)
        endpoint, direction = COUNT_ENDPOINTS[wanted.provider.dialect], wanted.translation.direction
        if not 200 <= status < 300:
            failure = wanted.translation.error(status, body, headers).failure
            failure.headers = {name: value for name, value in failure.headers.items() if "retry" in name}
            raise _UpstreamRefusal(failure, status)
        try:
            tokens = endpoint.read(json_loads(body))
        except ValueError:
            tokens = None
        if tokens is None:
            raise _UpstreamRefusal(
                Failure(FailureKind.API, f"{wanted.provider.name} returned no token count", 502), 501
            )
        return _Counted(tokens, CountSource.EXACT, answer=body if direction.passthrough else b"")

    def _url(self, request: web.Request, wanted: _CountRequest) -> str:
        query = "beta=true" if wanted.translation.same_body and request.query.get("beta") == "true" else ""
        url = _count_url(wanted.provider, wanted.translation.upstream_model, query)
        assert url is not None
        return url

    def _call(self, request: web.Request, wanted: _CountRequest, url: str, body: bytes) -> UpstreamRequest:
        services, provider, same = self._services, wanted.provider, wanted.translation.same_body
        passthrough = wanted.translation.direction.passthrough
        headers = services.upstream_requests.headers(
            provider, request.headers, same_dialect=passthrough, same_body=same
        )
        timeouts = services.config.server.timeouts
        timeouts = replace(timeouts, first_byte=min(WAIT, timeouts.first_byte))
        return request_to(provider, url, headers, body, False, timeouts)

    # --- here --------------------------------------------------------------------------------------------------------

    def _estimated(self, wanted: _CountRequest) -> _Counted:
        """Estimate the tokens of the request as it would be sent, without the parts that policies removed."""
        translation = wanted.translation
        tokens, method = self._counter.count(
            wanted.provider.dialect, translation.body, translation.upstream_model, translation.context.limits
        )
        return _Counted(tokens, CountSource.ESTIMATE, method)


class _UpstreamRefusal(UpstreamError):
    """An upstream that did not return a count. `status` is its status, or the one that its response amounts to."""

    def __init__(self, failure: Failure, status: int) -> None:
        super().__init__(failure)
        self.status = status


def _client_of(request: web.Request) -> Dialect:
    """Return the dialect of the endpoint."""
    path = request.path.rstrip("/")
    return next(client for client, endpoint in COUNT_ENDPOINTS.items() if path.endswith(endpoint.path))


def _count_url(provider: Provider, model: str, query: str = "") -> str | None:
    """Return the URL of a provider's endpoint that counts tokens, None if it has none. Raises ClientRequestError."""
    endpoint = COUNT_ENDPOINTS.get(provider.dialect)
    return None if endpoint is None else provider.count_endpoint(endpoint.path, model, query)


def _question(
    translation: Translation, provider: Provider, headers: Mapping[str, str], url: str
) -> tuple[bytes, blake2b]:
    """Return the body of the request for an upstream's count, and its digest."""
    body = translation.body
    if not translation.same_body:
        endpoint = COUNT_ENDPOINTS[provider.dialect]
        body = json_dumps(endpoint.question(json_loads(body), translation.upstream_model, url))
    if provider.changes_requests:
        betas = betas_of(provider, headers) if translation.same_body else NONE
        body = count_body(body, provider, translation.upstream_model, betas)
    return body, blake2b(body, digest_size=16)


def _key(digest: blake2b, call: UpstreamRequest, direction: Direction) -> bytes:
    """Return the cache key of a count. Cached responses are in the client's dialect, so it is part of the key."""
    digest.update(json_dumps([str(direction), call.url, *sorted(call.headers.items())]))
    return digest.digest()
