"""The attempts of a forwarded request, on a route with retries, several providers, or limits of providers.

What is retried, where and when is as for translated requests (`proxy.attempts`), with which these share the retry
budget, the breakers and the pauses. A request is sent again only before the first byte of a reply, and only if its body
is here: a form, which goes upstream while it arrives, has one attempt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from aiohttp import web

from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.errors import LimitExceeded
from dragoman_server.config.provider import Auth
from dragoman_server.endpoints.forward.request import ClientBody, exchange_of, upstream_request
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.attempts import AttemptResult, Attempts
from dragoman_server.proxy.exchange import Exchange
from dragoman_server.proxy.limits import estimate_by_size
from dragoman_server.proxy.loaded_config import LoadedConfig
from dragoman_server.proxy.read_response import ReadResponse
from dragoman_server.proxy.upstream_request import UpstreamRequests
from dragoman_server.routing.backoff import retry_hints
from dragoman_server.routing.outcomes import ANSWERED, outcome_of_status
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.router import Target
from dragoman_server.routing.routing_state import RoutingState


class ForwardAttempts(Attempts):
    """The attempts of one forwarded request: `client` is its body, `upload` the form that is sent in place of that.

    `address` is the client's: it separates clients of the same key, as a conversation does elsewhere. The other
    arguments are those of `Attempts`.
    """

    __slots__ = ("_client", "_upload")

    def __init__(
        self,
        request: web.Request,
        client: ClientBody,
        upload: Upload | None,
        receipt: Receipt,
        exchange: Exchange,
        loaded: LoadedConfig,
        target: Target,
        ranking: list[Candidate],
        candidate: Candidate,
        routing: RoutingState,
        transport: Transport,
        requests: UpstreamRequests,
        now: Callable[[], float],
        *,
        estimates: bool,
        address: bytes,
    ) -> None:
        assert target.plan is not None
        if upload is not None:
            target = target._replace(plan=target.plan._replace(attempts=1))
        super().__init__(
            *(request, client.body, receipt, exchange, loaded, target, ranking, candidate),
            *(routing, transport, requests, now),
            estimates=estimates,
            conversation=address,
        )
        self._client = client
        self._upload = upload

    async def _send(self, call: UpstreamRequest, timers: StreamTimers) -> AttemptResult:
        """Send the request, and read a reply of JSON, or the first bytes of another one."""
        if self._upload is not None:
            response = await self._transport.open_upload(call, self._upload, timers)
        else:
            response = await self._transport.open(call, timers)
        try:
            if not 200 <= response.status < 300:
                own_key = self._candidate.provider.auth is Auth.CONFIGURED
                hints = retry_hints(response.headers, self._now())
                return AttemptResult(outcome_of_status(response.status, hints, own_key=own_key), response)
            if "json" in response.headers.get("content-type", ""):
                body = await response.read(self._exchange.translation.context.limits.reply_body)
                return AttemptResult(ANSWERED, ReadResponse(response, body))
            batches = response.batches()
            try:
                first = await anext(batches, b"")
            except BaseException:
                await batches.aclose()
                raise
            return AttemptResult(ANSWERED, _BegunResponse(response, first, batches))
        except BaseException:
            await response.close()
            raise

    async def _translated(self, candidate: Candidate) -> UpstreamRequest | None:
        """Return the request for a candidate, or None if it cannot get it."""
        receipt, loaded = self._receipt, self._loaded
        target = self._target._replace(provider=candidate.provider, upstream_model=candidate.upstream_model)
        translation = await exchange_of(self._request, receipt, loaded, target, self._client, self._now)
        if self._estimates:
            translation.context.input_estimate = estimate_by_size(translation.body)
        call, _ = upstream_request(
            *(self._requests, self._request, loaded, target, translation, self._client, receipt.endpoint)
        )
        self._candidate, receipt.provider = candidate, candidate.provider.name
        self._exchange.translation, self._exchange.provider = translation, candidate.provider.name
        return call


class _BegunResponse:
    """A response whose first bytes were read."""

    def __init__(self, response: UpstreamResponse, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._response = response
        self._first = first
        self._rest = rest
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self, limit: int) -> bytes:
        """Return the body. Raises LimitExceeded, and what the response raises."""
        body = b"".join([data async for data in self.batches()])
        if len(body) > limit:
            raise LimitExceeded("reply_body", limit, upstream=True)
        return body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body. Raises as the response does."""
        async with aclosing(self._rest):
            if self._first:
                yield self._first
            async for data in self._rest:
                yield data

    async def close(self) -> None:
        """Close the response."""
        await self._rest.aclose()
        await self._response.close()
