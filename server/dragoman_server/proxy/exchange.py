"""One exchange: the upstream's response to a translated request becomes the client's response (mapping §10.4)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aiohttp import web
from multidict import istr

from dragoman import Dialect, DragomanError, Failure, Losses, Translation, UpstreamError
from dragoman.aio import (
    DEFECT,
    ClientGone,
    Downstream,
    DownstreamResponse,
    EventStream,
    ProxyStream,
    SlicedResponse,
    StreamTimers,
    UpstreamResponse,
    keep_reply,
    open_proxy_stream,
    ping_of,
    send_proxy_stream,
)
from dragoman.errors import FailureKind
from dragoman.gateway import quote
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.observability.access_log import direction_text, error_word, request_line
from dragoman_server.observability.logs import log_request
from dragoman_server.observability.receipts import Receipt, ended_by
from dragoman_server.observability.throttled_log import UpstreamWarnings
from dragoman_server.proxy.early_response import EarlyResponse
from dragoman_server.proxy.error_response import OWN_ID, web_response
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.routing.response_issuers import ExpectedResponse
from dragoman_server.routing.router import listed

log = logging.getLogger("dragoman")
LOSS_HEADER = "x-dragoman-loss"
OpenStream = Callable[[StreamTimers, dict[str, str]], Downstream]
"""Returns what the stream of an exchange with these timers is sent to. It may add to the headers of the response."""
_NO_HEADERS: Mapping[str, str] = {}
Record = Callable[[AsyncGenerator[bytes, None]], AsyncGenerator[bytes, None]]
"""Returns the batches that it is called with, and records them."""
STREAM_STATUS = 200
"""The status of every streamed response."""


@dataclass(slots=True)
class Exchange:
    """One translated request. `answer` builds the client's response and completes the receipt."""

    client: Dialect
    translation: Translation
    provider: str
    receipt: Receipt
    upstream_warnings: UpstreamWarnings
    early: EarlyResponse | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    """Headers with the rate limits of the client's key. They replace the upstream's, which are the gateway's own."""
    stream: ProxyStream | None = None
    """The upstream's stream, if its first event was read already (`proxy.attempts`)."""
    whole: bytes | None = None
    """The client's body of a reply that is not streamed, if it was read already (`proxy.attempts`)."""
    record: Record | None = None
    """Records the batches of a stream that are sent, if it is recorded (`proxy.stream_recorder`)."""
    open_stream: OpenStream | None = None
    """Replaces the response to the request as the receiver of the stream."""
    models_at: Callable[[str, KeyRecord | None], Sequence[str]] | None = None
    """Returns the models that the provider of a name lists, and that a key permits, for the error of an unknown one."""
    expected: ExpectedResponse | None = None
    """The response that the upstream is to store, if a later request that continues it must go to the same one."""

    def answer(
        self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """Return the client's response, which has been sent already if it is a stream.

        Raises DragomanError for a failure before the response has begun.
        """
        if log.isEnabledFor(logging.DEBUG):
            seconds = self.receipt.seconds()
            log.debug("%s upstream answered %d after %.3f s", self.receipt.request_id, answer.status, seconds)
        if not 200 <= answer.status < 300:
            return self._upstream_error(answer)
        headers = self._headers(answer)
        if not self.translation.stream:
            return self._whole_reply(answer, headers)
        return self._streamed_reply(request, answer, timers, headers)

    async def answer_early(
        self, request: web.Request, opening: Awaitable[UpstreamResponse], timers: StreamTimers, seconds: float
    ) -> web.StreamResponse:
        """Await the upstream's response, then handle it as `answer` does. After `seconds`, start without it."""
        early = self.early = EarlyResponse(lambda: self._downstream(request, self._own_headers(), timers), seconds)
        try:
            answer = await opening
            self.translation.body = b""
            try:
                return await self.answer(request, answer, timers)
            finally:
                await answer.close()
        except (ClientGone, ConnectionError):
            raise
        except Exception as error:
            client = await early.take()
            if client is None:
                raise
            if not isinstance(error, DragomanError):
                log.exception("%s failed by a defect", self.receipt.request_id)
            failure = error.failure if isinstance(error, DragomanError) else replace(DEFECT)
            return await self._fail_started(client, failure)
        finally:
            early.stop()

    async def _started(self) -> Downstream | None:
        """Return the response that was started before the upstream's response arrived, or None."""
        return await self.early.take() if self.early is not None else None

    async def _fail_started(self, client: Downstream, failure: Failure) -> web.StreamResponse:
        """Send an error in a response of which only the headers were sent."""
        failure = self.translation.error_of(failure).failure
        return await self._write_to_started(client, self.translation.error_stream(failure))

    async def _write_to_started(self, client: Downstream, body: bytes) -> web.StreamResponse:
        """Send the whole body of a response of which only the headers were sent."""
        self._finish_receipt("answered without a stream", "completed", STREAM_STATUS)
        await client.end(body)
        client.close()
        return client.response or web.StreamResponse()

    async def _whole_reply(self, answer: UpstreamResponse, headers: dict[str, str]) -> web.StreamResponse:
        """Translate a reply that is not streamed."""
        written = self.whole if self.whole is not None else await self.read_whole(answer)
        self._note_issuer()
        if (stored := self.translation.context.stored) is not None:
            written = await keep_reply(stored, written)
        self._finish_receipt("completed", "completed", answer.status)
        return self._json_response(answer, written, headers)

    async def read_whole(self, answer: UpstreamResponse) -> bytes:
        """Read and translate a reply that is not streamed. Raises DragomanError."""
        translation = self.translation
        body = await answer.read(translation.context.limits.reply_body)
        if len(body) <= LONG_BODY:
            return translation.reply(body, answer.headers)
        return await compute(len(body), partial(translation.reply, body, answer.headers), self.receipt.owner)

    def _json_response(self, answer: UpstreamResponse, body: bytes, headers: dict[str, str]) -> web.Response:
        add_loss_header(headers, self.translation.losses)
        return SlicedResponse(status=answer.status, body=body, content_type="application/json", headers=headers)

    async def _upstream_error(self, answer: UpstreamResponse) -> web.StreamResponse:
        """Translate an error status. A body that is in the client's envelope already is passed through."""
        translation = self.translation
        try:
            body = await answer.read(translation.context.limits.reply_body)
        except UpstreamError:
            body = b""  # the status is what matters: clients decide by it whether to retry
        error = translation.error(answer.status, body, answer.headers)
        failure = error.failure
        if (
            failure.kind is FailureKind.NOT_FOUND
            and self.models_at is not None
            and not translation.direction.passthrough
        ):
            names = self.models_at(self.provider, self.receipt.key)
            if names and translation.upstream_model not in names:
                failure = replace(failure, message=f"{failure.message}; {self.provider} has the models {listed(names)}")
                error = translation.error_of(failure)
        if (started := await self._started()) is not None:
            return await self._fail_started(started, failure)
        response = web_response(error, self.client, self.receipt.request_id)
        response.headers.update(self.limits)
        add_loss_header(response.headers, translation.losses)
        self._finish_receipt(f"refused with {answer.status} ({failure.kind})", "refused", response.status)
        return response

    async def _streamed_reply(
        self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers, headers: dict[str, str]
    ) -> web.StreamResponse:
        answer.headers = _NO_HEADERS
        stream = self.stream or await open_proxy_stream(self.translation, answer, timers)
        self._note_issuer()
        if self.record is not None:
            stream.batches = self.record(stream.batches)
        downstream = await self._started()
        self.receipt.begin()
        if downstream is None:
            add_loss_header(headers, self.translation.losses)
            downstream = self._downstream(request, headers, timers)
        del headers, request  # an open stream must not keep them in memory
        how = "abandoned"  # a client that disconnects cancels this; the receipt must be completed all the same (T-75)
        try:
            how = await send_proxy_stream(downstream, stream, timers)
        finally:
            self._finish_receipt(how, how, STREAM_STATUS)
        return downstream.response or web.StreamResponse()  # unused if the handler was detached

    def _note_issuer(self) -> None:
        """Keep the provider that issued the response, before the client learns the response's id."""
        if self.expected is not None:
            self.expected.issued(self.translation.response_id)
            self.expected = None

    def _downstream(self, request: web.Request, headers: dict[str, str], timers: StreamTimers) -> Downstream:
        if self.open_stream is not None:
            return self.open_stream(timers, headers)
        ping = ping_of(self.client, self.translation.context.knobs.heartbeats)
        return DownstreamResponse(request, event_stream(headers), timers, ping)

    def _own_headers(self) -> dict[str, str]:
        """Return the headers that do not depend on the upstream's response."""
        own = self.receipt.request_id
        headers = {self.client.request_id_header: own, OWN_ID: own, **self.limits}
        add_loss_header(headers, self.translation.losses)
        return headers

    def _headers(self, answer: UpstreamResponse) -> dict[str, str]:
        headers = self.translation.reply_headers(answer.headers, rate_limits=not self.limits)
        headers[OWN_ID] = self.receipt.request_id
        if self.limits:
            headers.update(self.limits)
        return headers

    def _finish_receipt(self, how: str, ended: str, status: int) -> None:
        """Log the request's line and complete the receipt."""
        context = self.translation.context
        losses, failure = context.losses, context.failure
        if failure is not None and ended != "refused":
            ended = ended_by(failure)
            how = f"{ended} in the stream ({error_word(failure)})"
        level, note = logging.INFO, ""
        if failure is not None:
            level, note = self.upstream_warnings.level(self.provider, failure)
        if log.isEnabledFor(level):
            summary = f"{direction_text(self.translation)} {how}"
            log_request(level, request_line(self.receipt, summary, ended, status, error=failure, note=note))
            if log.isEnabledFor(logging.DEBUG):
                for code, path, done in losses.rows:
                    log.debug("%s loss %s at %s: %s", self.receipt.request_id, code, quote(path), quote(done))
        self.receipt.end(ended, status)


def add_loss_header(headers: MutableMapping[str, str], losses: Losses | None) -> None:
    """Add the codes and counts of the losses so far."""
    if losses:
        headers[LOSS_HEADER] = losses.header()


# The response's multidict would convert plain strings into this type for each response.
_CONTENT_TYPE, _CACHE_CONTROL, _ACCEL = istr("Content-Type"), istr("Cache-Control"), istr("X-Accel-Buffering")


def event_stream(headers: dict[str, str]) -> EventStream:
    """Return a response that is an event stream. Its headers are added to `headers`."""
    headers[_CONTENT_TYPE] = "text/event-stream; charset=utf-8"
    headers[_CACHE_CONTROL] = "no-cache"
    headers[_ACCEL] = "no"  # nginx would otherwise buffer the stream
    return EventStream(headers=headers)
