"""The counting endpoints: `POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`.

A request is translated as it would be for sending. The upstream counts it where it can; where it cannot, or does not
for now, it is counted here and the reply says so in a header. Agents ask for fifty counts in a second (T-60), so that
answers of upstreams are remembered, and that an upstream has no such endpoint (T-61).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b

from aiohttp import web

from dragoman.aio.proxy_stream import DEFECT
from dragoman.aio.stream_timers import ClientGone
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.caches import TTLCache
from dragoman.canonical.request import Json, Request
from dragoman.dialects import Dialect
from dragoman.dialects.codec import CODECS
from dragoman.dialects.errors.headers import RETRY, select_headers
from dragoman.dialects.errors.read import redact_failure
from dragoman.dialects.errors.redact import quote
from dragoman.dialects.shared.count_endpoints import COUNTING
from dragoman.directions import DIRECTIONS, Direction
from dragoman.errors import ClientRequestError, DragomanError, Failure, FailureKind, UpstreamError
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.tokens import VOCABULARY, Counter, by_body, by_characters, by_vocabulary, installed
from dragoman.translate import Translation, parse_body, translate
from dragoman.wire.json_codec import dumps, loads
from dragoman_server.config.providers import Provider
from dragoman_server.observability.metric_families import COUNTS
from dragoman_server.proxy.error_response import OWN_ID, REQUEST_ID, error_response
from dragoman_server.proxy.exchange import tell_losses
from dragoman_server.proxy.gateway import CLIENT_GONE, Gateway
from dragoman_server.proxy.request_body import read_model, wished

log = logging.getLogger("dragoman")

ESTIMATE = "x-dragoman-estimate"
"""Says that a count is the gateway's own, and how it was made: `o200k_base`, `characters` or `size`."""
WAIT = 15.0
"""Seconds that an upstream has to count, if its `first_byte` is longer: the estimate is there at once."""
REMEMBERED = 300.0
"""Seconds that an upstream's count is good for, and its having no such endpoint."""
KEPT = 1024
"""Most of either that are remembered."""
ASIDE = 256 * 1024
"""Bytes of a request from which on it is counted in a thread, 10 ms and more, beside the streams."""
_ANSWER = 4096
"""Bytes of an upstream's answer that is remembered."""
_LACKING = frozenset((404, 405, 501))
_FOR_NOW = frozenset((408, 429))

_CAP = 128_000
"""An output cap with room for any thinking budget. It is not part of what is counted."""


class How(StrEnum):
    """How a count came about."""

    EXACT = "exact"
    REMEMBERED = "remembered"
    ESTIMATE = "estimate"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request to be counted."""

    provider: Provider
    translation: Translation
    untouched: bool
    """Is the body the client's own."""
    knobs: Knobs
    secrets: tuple[str, ...]
    """The texts that must not come back from the provider."""


@dataclass(frozen=True, slots=True)
class _Counted:
    tokens: int
    how: How
    by: str = ""
    """What made an estimate."""
    answer: bytes = b""
    """The upstream's own words, for a client of its dialect."""


class Counting:
    """The two endpoints of one gateway. `clock` gives seconds from any origin."""

    def __init__(self, gateway: Gateway, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._exact = installed()
        self._counter = Counter(by_vocabulary if self._exact else by_characters)
        self._answers: TTLCache[bytes, _Counted] = TTLCache(KEPT, REMEMBERED, clock)
        self._pending: dict[bytes, asyncio.Future[_Counted]] = {}
        """Questions on their way, so that who asks the same meanwhile waits for the one answer."""
        self._lacking: TTLCache[tuple[Dialect, str, str], bool] = TTLCache(KEPT, REMEMBERED, clock)

    async def warm(self) -> None:
        """Load the vocabulary where there is one: a second in which no stream could move, hence before there is any."""
        if self._exact:
            await asyncio.to_thread(self._counter.texts, [""])

    async def messages(self, request: web.Request) -> web.Response:
        """`POST /v1/messages/count_tokens`, with or without `?beta=true`."""
        return await self._answer(request, Dialect.MESSAGES)

    async def responses(self, request: web.Request) -> web.Response:
        """`POST /v1/responses/input_tokens`."""
        return await self._answer(request, Dialect.RESPONSES)

    async def _answer(self, request: web.Request, client: Dialect) -> web.Response:
        request_id, how, provider = self._gateway.new_id(), How.FAILED, ""
        asked: _Asked | None = None
        try:
            asked = await self._understood(request, client, request_id)
            provider = asked.provider.name
            counted = await self._count(request, asked)
            how = counted.how
            response = self._told(client, counted, request_id)
        except DragomanError as error:
            response = error_response(client, error.failure, request_id)
        except (ClientGone, ConnectionError):
            response = web.Response(status=CLIENT_GONE)
        except Exception:
            log.exception("%s %s failed by a defect", request_id, request.path)
            response = error_response(client, replace(DEFECT), request_id)
        finally:
            self._gateway.metrics.totals.add(COUNTS, (client, provider, how))
        if asked is not None:
            tell_losses(response.headers, asked.translation.losses)
        return response

    def _told(self, client: Dialect, counted: _Counted, request_id: str) -> web.Response:
        body = counted.answer or dumps(COUNTING[client].write(counted.tokens))
        headers = {OWN_ID: request_id, REQUEST_ID[client]: request_id}
        if counted.by:
            headers[ESTIMATE] = counted.by
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _understood(self, request: web.Request, client: Dialect, request_id: str) -> _Asked:
        """The request as it would be sent. Raises DragomanError."""
        gateway = self._gateway
        gateway.admit(request)
        loaded = gateway.loaded  # a reload may replace it while the body comes
        limits = loaded.config.server.limits
        body = await gateway.bodies.read(request)
        payload = parse_body(body, limits)
        target = loaded.router.resolve(read_model(payload), client)
        known = loaded.clients.recognise(request.headers)
        provider, knobs = target.provider, wished(target.knobs_for(known.name if known else None), request.headers)
        translation = translate(
            DIRECTIONS[client, provider.dialect],
            body,
            payload=_whole(payload, client, provider),
            upstream_model=target.upstream_model,
            profile=provider.profile,
            knobs=knobs,
            limits=limits,
            request_id=request_id,
        )
        untouched = translation.direction.passthrough and not translation.rewritten
        return _Asked(provider, translation, untouched, knobs, loaded.secrets_of(provider, request.headers))

    async def _count(self, request: web.Request, asked: _Asked) -> _Counted:
        knob, provider = asked.knobs.count_tokens, asked.provider
        model = asked.translation.upstream_model
        # Not the provider's name: a reload may put another upstream behind it.
        place = provider.dialect, provider.base_url, model
        if knob != "estimate" and provider.dialect in COUNTING and provider.profile.counting:
            if knob == "exact":
                return await self._forwarded(request, asked)
            if place not in self._lacking:
                try:
                    return await self._forwarded(request, asked)
                except UpstreamError as error:
                    status = error.status if isinstance(error, _Refused) else error.failure.status
                    if status in _LACKING:
                        self._lacking.put(place, True)
                    elif status not in _FOR_NOW and status < 500:
                        raise
                    log.info("%s does not count tokens for %s (%s)", provider.name, quote(model), status)
        elif knob == "exact":
            why = f"the upstream {provider.name} cannot count tokens, and estimates are switched off (count_tokens)"
            raise DragomanError(Failure(FailureKind.NOT_FOUND, why, 404))
        if len(asked.translation.body) > ASIDE:
            return await asyncio.to_thread(self._estimated, asked)
        return self._estimated(asked)

    # --- by the upstream ---------------------------------------------------------------------------------------------

    async def _forwarded(self, request: web.Request, asked: _Asked) -> _Counted:
        """The upstream's count. Raises UpstreamError, its failure in the client's terms."""
        call = self._call(request, asked)
        key = _digest(call, asked.translation.direction)
        while True:
            known = self._answers.get(key)
            if known is not None:
                return known
            pending = self._pending.get(key)
            if pending is None:
                break
            await asyncio.wait((pending,))
            if not pending.cancelled():  # as it is where its client left: then another one asks
                return replace(pending.result(), how=How.REMEMBERED)
        pending = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            counted = await self._fetched(request, asked, call)
            pending.set_result(counted)
        except UpstreamError as error:
            pending.set_exception(error)
            pending.exception()  # nobody may be waiting for it
            raise
        finally:
            del self._pending[key]
            pending.cancel()
        if len(counted.answer) <= _ANSWER:
            self._answers.put(key, replace(counted, how=How.REMEMBERED))
        return counted

    async def _fetched(self, request: web.Request, asked: _Asked, call: UpstreamRequest) -> _Counted:
        """The upstream's count, asked for now."""
        status, headers, body = await self._gateway.fetch(request, call)
        endpoint, direction = COUNTING[asked.provider.dialect], asked.translation.direction
        if not 200 <= status < 300:
            secrets = asked.secrets
            failure = redact_failure(direction.upstream.read_failure(status, body, headers), secrets)
            failure.headers = select_headers(headers, RETRY, secrets)
            raise _Refused(failure, status)
        try:
            tokens = endpoint.read(loads(body))
        except ValueError:
            tokens = None
        if tokens is None:
            raise _Refused(Failure(FailureKind.API, f"{asked.provider.name} gave no count of tokens", 502), 501)
        return _Counted(tokens, How.EXACT, answer=body if direction.passthrough else b"")

    def _call(self, request: web.Request, asked: _Asked) -> UpstreamRequest:
        gateway, provider, same = self._gateway, asked.provider, asked.untouched
        endpoint = COUNTING[provider.dialect]
        body = asked.translation.body
        if not same:
            body = dumps(endpoint.question(loads(body)))
        query = "beta=true" if same and request.query.get("beta") == "true" else ""
        headers = gateway.headers(provider, request.headers, same_dialect=same)
        timeouts = gateway.config.server.timeouts
        timeouts = replace(timeouts, first_byte=min(WAIT, timeouts.first_byte))
        return UpstreamRequest(provider.endpoint(endpoint.path, query), headers, body, False, timeouts)

    # --- here --------------------------------------------------------------------------------------------------------

    def _estimated(self, asked: _Asked) -> _Counted:
        """What would be sent, read as its upstream would read it, so that what the policies left out is not counted."""
        dialect, sent = asked.provider.dialect, asked.translation.body
        payload = loads(sent)
        if dialect is Dialect.MESSAGES:
            payload.setdefault("max_tokens", 1)
        try:
            prompt = CODECS[dialect].read_request(payload, Losses(), Knobs(), asked.translation.context.limits)
        except (ClientRequestError, RecursionError):
            # What only its upstream understands passes through to it, and is none of ours to refuse.
            whole = Request(dialect, asked.translation.upstream_model, [])
            return _Counted(by_body(whole, sent, dialect), How.ESTIMATE, "size")
        by = VOCABULARY if self._exact else "characters"
        return _Counted(self._counter.request(prompt, dialect), How.ESTIMATE, by)


class _Refused(UpstreamError):
    """An upstream that did not count. `status` is its own, or what it comes to."""

    def __init__(self, failure: Failure, status: int) -> None:
        super().__init__(failure)
        self.status = status


def _whole(payload: Json, client: Dialect, provider: Provider) -> Json:
    """The request with what only one for an answer has to have, where it is translated."""
    if client is not Dialect.MESSAGES or "max_tokens" in payload:
        return payload
    return {**payload, "max_tokens": provider.profile.max_output_tokens or _CAP}


def _digest(call: UpstreamRequest, direction: Direction) -> bytes:
    """The question of one client dialect: to another one the same answer is told in other words."""
    digest = blake2b(call.body, digest_size=16)
    digest.update(dumps([str(direction), call.url, *sorted(call.headers.items())]))
    return digest.digest()
