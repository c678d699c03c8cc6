"""One translated request and its reply: what the upstream answers becomes what the client gets (mapping §10.4)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from multidict import istr

from dragoman.aio.downstream.response import DownstreamResponse, EventStream
from dragoman.aio.proxy_stream import DEFECT, open_proxy_stream, ping_of, send_proxy_stream
from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.upstream.interface import UpstreamResponse
from dragoman.dialects import Dialect
from dragoman.dialects.errors.context_overflow import add_sizes
from dragoman.dialects.errors.headers import reply_headers
from dragoman.dialects.errors.read import own_envelope, redact_failure
from dragoman.dialects.errors.redact import quote
from dragoman.errors import DragomanError, Failure, UpstreamError
from dragoman.losses import Losses
from dragoman.translate import Translation
from dragoman_server.observability.access_log import request_line, way, word
from dragoman_server.observability.receipts import Receipt
from dragoman_server.observability.upstream_warnings import Outages
from dragoman_server.proxy.early_response import Early
from dragoman_server.proxy.error_response import OWN_ID, REQUEST_ID, error_response

log = logging.getLogger("dragoman")
LOSS_HEADER = "x-dragoman-loss"
_READ: Mapping[str, str] = {}
_STREAMED = 200
"""Status of every stream."""


@dataclass(slots=True)
class Exchange:
    """`answer` turns an upstream's answer into the client's response and completes the receipt."""

    client: Dialect
    translation: Translation
    provider: str
    receipt: Receipt
    now: Callable[[], float]
    outages: Outages
    early: Early | None = None

    def answer(
        self, request: web.Request, answer: UpstreamResponse, watch: StreamTimers
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """The client's response, sent already if it is a stream. Raises DragomanError for what fails before that."""
        if log.isEnabledFor(logging.DEBUG):
            seconds = self.receipt.seconds()
            log.debug("%s upstream answered %d after %.3f s", self.receipt.request_id, answer.status, seconds)
        if not 200 <= answer.status < 300:
            return self._refused(answer)
        headers = self._headers(answer)
        if not self.translation.stream:
            return self._replied(answer, headers)
        if "json" in answer.headers.get("content-type", ""):
            return self._not_streamed(request, answer, headers)
        return self._stream(request, answer, watch, headers)

    async def answer_early(
        self, request: web.Request, opening: Awaitable[UpstreamResponse], watch: StreamTimers, seconds: float
    ) -> web.StreamResponse:
        """The same of an answer that is awaited first: behind `seconds` of it the reply begins without one."""
        early = self.early = Early(lambda: self._client(request, self._own_headers(), watch), seconds)
        try:
            answer = await opening
            self.translation.body = b""
            try:
                return await self.answer(request, answer, watch)
            finally:
                await answer.close()
        except (ClientGone, ConnectionError):
            raise
        except Exception as error:
            client = await early.client()
            if client is None:
                raise
            if not isinstance(error, DragomanError):
                log.exception("%s failed by a defect", self.receipt.request_id)
            failure = error.failure if isinstance(error, DragomanError) else replace(DEFECT)
            return await self._fail(client, failure)
        finally:
            early.stop()

    async def _begun(self) -> DownstreamResponse | None:
        """Whose reply has begun before this answer came."""
        return await self.early.client() if self.early is not None else None

    async def _fail(self, client: DownstreamResponse, failure: Failure) -> web.StreamResponse:
        """The error, in a reply that has nothing but its beginning."""
        translation = self.translation
        return await self._say(client, translation.failed(add_sizes(failure, translation.context)))

    async def _say(self, client: DownstreamResponse, words: bytes) -> web.StreamResponse:
        """All of a reply that has begun."""
        self._account("answered without a stream", "completed", _STREAMED)
        await client.write(words)
        await client.end(b"")
        client.close()
        return client.response or web.StreamResponse()

    async def _replied(self, answer: UpstreamResponse, headers: dict[str, str]) -> web.StreamResponse:
        """A whole reply."""
        body = await answer.read(self.translation.context.limits.reply_body)
        written = self.translation.reply(body, answer.headers)
        self._account("completed", "completed", answer.status)
        return self._whole(answer, written, headers)

    def _whole(self, answer: UpstreamResponse, body: bytes, headers: dict[str, str]) -> web.Response:
        tell_losses(headers, self.translation.losses)
        return web.Response(status=answer.status, body=body, content_type="application/json", headers=headers)

    async def _refused(self, answer: UpstreamResponse) -> web.StreamResponse:
        """An error status: passed through if it is in the client's envelope already, else put into it."""
        translation = self.translation
        try:
            body = await answer.read(translation.context.limits.reply_body)
        except UpstreamError:
            body = b""  # the status says enough, and a retry hangs on it
        headers = self._headers(answer)
        tell_losses(headers, translation.losses)
        secrets = translation.context.secrets
        failure = translation.direction.upstream.read_failure(answer.status, body, answer.headers)
        failure = redact_failure(failure, secrets)
        if (begun := await self._begun()) is not None:
            return await self._fail(begun, failure)
        same = translation.direction.passthrough
        if same and (own := own_envelope(body, secrets)) is not None:
            response = web.Response(status=answer.status, body=own, content_type="application/json", headers=headers)
        else:
            failure = add_sizes(failure, translation.context)
            failure.headers = headers
            response = error_response(self.client, failure, translation.context.request_id)
            if same and answer.status >= 400:  # a foreign body, perhaps of a balancer: its status is the client's still
                response.set_status(answer.status)
        translation.context.failure = failure
        self._account(f"refused with {answer.status} ({failure.kind})", "refused", response.status)
        return response

    async def _stream(
        self, request: web.Request, answer: UpstreamResponse, watch: StreamTimers, headers: dict[str, str]
    ) -> web.StreamResponse:
        answer.headers = _READ
        stream = await open_proxy_stream(self.translation, answer, watch)
        audience = await self._begun()
        self.receipt.begin()
        if audience is None:
            tell_losses(headers, self.translation.losses)
            audience = self._client(request, headers, watch)
        del headers, request  # an open stream keeps neither
        how = "abandoned"  # a client that leaves cancels this, and is accounted for all the same (T-75)
        try:
            how = await send_proxy_stream(audience, stream, watch)
        finally:
            self._account(how, how, _STREAMED)
        return audience.response or web.StreamResponse()  # nobody waits for it where the handler was left

    async def _not_streamed(
        self, request: web.Request, answer: UpstreamResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        """An upstream that answers a stream request with JSON: an error, or a whole reply that is then replayed.

        In passthrough too: an SDK that waits for a stream finds no event in JSON, and takes that for an empty success.
        """
        translation = self.translation
        body = await answer.read(translation.context.limits.reply_body)
        begun = await self._begun()
        written = translation.replay(body, answer.headers)
        if begun is not None:
            return await self._say(begun, written)
        tell_losses(headers, translation.losses)
        response = _event_stream(headers)
        self._account("answered without a stream", "completed", response.status)
        await response.prepare(request)
        await response.write(written)
        await response.write_eof()
        return response

    def _client(self, request: web.Request, headers: dict[str, str], watch: StreamTimers) -> DownstreamResponse:
        return DownstreamResponse(request, _event_stream(headers), watch, ping_of(self.client))

    def _own_headers(self) -> dict[str, str]:
        """Those that hang on no answer."""
        own = self.translation.context.request_id
        headers = {REQUEST_ID[self.client]: own, OWN_ID: own}
        tell_losses(headers, self.translation.losses)
        return headers

    def _headers(self, answer: UpstreamResponse) -> dict[str, str]:
        source, context = self.translation.direction.upstream.dialect, self.translation.context
        headers = reply_headers(source, self.client, answer.headers, now=self.now(), secrets=context.secrets)
        headers.setdefault(REQUEST_ID[self.client], context.request_id)
        headers[OWN_ID] = context.request_id
        return headers

    def _account(self, how: str, ended: str, status: int) -> None:
        """The line of the log, and the end of the receipt."""
        context, failure = self.translation.context, self.translation.context.failure
        if failure is not None and ended != "refused":
            how, ended = f"failed in the stream ({word(failure)})", "failed"
        level, note = logging.INFO, ""
        if failure is not None:
            level, note = self.outages.level(self.provider, failure)
        if log.isEnabledFor(level):
            words = f"{way(self.translation)} {how}"
            log.log(level, request_line(self.receipt, words, ended, status, error=failure, note=note))
        if context.losses and log.isEnabledFor(logging.DEBUG):
            for code, path, done in context.losses.rows:
                log.debug("%s loss %s at %s: %s", context.request_id, code, quote(path), quote(done))
        self.receipt.end(ended, status)


def tell_losses(headers: MutableMapping[str, str], losses: Losses | None) -> None:
    """Put what was lost so far into the reply's header."""
    if losses:
        headers[LOSS_HEADER] = losses.summary()


# Names as the response's multidict keeps them: of a plain string it makes one of these, for each response anew.
_CONTENT_TYPE, _CACHE_CONTROL, _ACCEL = istr("Content-Type"), istr("Cache-Control"), istr("X-Accel-Buffering")
_NAMES = {name: istr(name) for name in (OWN_ID, *REQUEST_ID.values())}


def _event_stream(headers: dict[str, str]) -> EventStream:
    # x-accel-buffering: nginx would otherwise collect the stream before passing it on.
    told = {_NAMES.get(name, name): value for name, value in headers.items()}
    told[_CONTENT_TYPE] = "text/event-stream; charset=utf-8"
    told[_CACHE_CONTROL] = "no-cache"
    told[_ACCEL] = "no"
    return EventStream(headers=told)
