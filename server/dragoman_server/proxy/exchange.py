"""One exchange: the upstream's response to a translated request becomes the client's response (mapping §10.4)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import web

from dragoman import DragomanError, Failure, Translation
from dragoman.aio import (
    Downstream,
    DownstreamResponse,
    ProxyStream,
    SlicedResponse,
    StreamTimers,
    UpstreamResponse,
    first_failure,
    keep_reply,
    open_proxy_stream,
    ping_of,
    send_proxy_stream,
)
from dragoman.errors import FailureKind
from dragoman.gateway import quote
from dragoman_server.observability.access_log import direction_text, error_word, request_line
from dragoman_server.observability.attempt_usage import has_begun
from dragoman_server.observability.logs import log_request
from dragoman_server.proxy.early_response import EarlyResponse
from dragoman_server.proxy.error_ladder import failure_of
from dragoman_server.proxy.error_response import OWN_ID, web_response
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.proxy.recorded_reply import RecordedDownstream
from dragoman_server.proxy.refusal import write_refusal
from dragoman_server.proxy.reply_headers import add_loss_header, event_stream
from dragoman_server.receipt import ended_by
from dragoman_server.routing.router import listed
from dragoman_server.scope import RequestScope

log = logging.getLogger("dragoman")
_NO_HEADERS: Mapping[str, str] = {}
STREAM_STATUS = 200
"""The status of every streamed response."""


class Exchange:
    """The reply to one translated request. `answer` builds the client's response and completes the receipt."""

    __slots__ = ("_early", "_scope", "_stream", "_whole")

    def __init__(self, scope: RequestScope) -> None:
        self._scope = scope
        self._early: EarlyResponse | None = None
        self._stream: ProxyStream | None = None
        """The upstream's stream, once it has begun."""
        self._whole: bytes | None = None
        """The client's body of a reply that is not streamed, once it was read."""

    async def begin(self, answer: UpstreamResponse, timers: StreamTimers) -> Failure | None:
        """Read and translate a whole reply, or a stream up to its first event.

        Return the failure if the first event is an error that would be forwarded as it is. Raises DragomanError.
        """
        if self._scope.translation.stream:
            self._stream = stream = await open_proxy_stream(self._scope.translation, answer, timers)
            return first_failure(stream)
        self._whole = await self._read_whole(answer)
        return None

    async def drop(self) -> None:
        """Close a stream that has begun, as another attempt follows."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.batches.aclose()

    def answer(
        self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """Return the client's response, which has been sent already if it is a stream.

        Raises DragomanError for a failure before the response has begun.
        """
        scope = self._scope
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s upstream answered %d after %.3f s", scope.receipt.request_id, answer.status, scope.seconds())
        if not 200 <= answer.status < 300:
            return self._upstream_error(answer)
        translation = scope.translation
        headers = self._headers(translation, answer)
        if not translation.stream:
            return self._whole_reply(answer, headers)
        return self._streamed_reply(request, answer, timers, headers)

    async def answer_detached(self, answer: UpstreamResponse, timers: StreamTimers) -> None:
        """Send a stream to what the scope's `open_stream` returns, without a request of a client.

        Raises DragomanError for a failure before the stream has begun.
        """
        await self._streamed_reply(None, answer, timers, self._headers(self._scope.translation, answer))

    async def answer_early(
        self, request: web.Request, opening: Awaitable[UpstreamResponse], timers: StreamTimers, seconds: float
    ) -> web.StreamResponse:
        """Await the upstream's response, then handle it as `answer` does. After `seconds`, start without it."""
        early = self._early = EarlyResponse(lambda: self._downstream(request, self._own_headers(), timers), seconds)
        try:
            answer = await opening
            self._scope.translation.body = b""
            try:
                return await self.answer(request, answer, timers)
            finally:
                await answer.close()
        except Exception as error:
            failure = failure_of(error)
            client = await early.take() if failure is not None else None
            if failure is None or client is None:
                raise
            if not isinstance(error, DragomanError):
                log.exception("%s failed by a defect", self._scope.receipt.request_id)
            return await self._fail_started(client, failure)
        finally:
            early.stop()

    async def _started(self) -> Downstream | None:
        """Return the response that was started before the upstream's response arrived, or None."""
        return await self._early.take() if self._early is not None else None

    async def _fail_started(self, client: Downstream, failure: Failure) -> web.StreamResponse:
        """Send an error in a response of which only the headers were sent."""
        translation, recording = self._scope.translation, self._scope.recording
        body = translation.error_stream(translation.error_of(failure).failure)
        if recording is not None:
            recording.wrote(body)
        self._finish("answered without a stream", "completed", STREAM_STATUS)
        await client.end(body)
        client.close()
        return client.response or web.StreamResponse()

    async def _whole_reply(self, answer: UpstreamResponse, headers: dict[str, str]) -> web.StreamResponse:
        """Translate a reply that is not streamed."""
        translation = self._scope.translation
        written = self._whole if self._whole is not None else await self._read_whole(answer)
        if (kept := self._note_issuer(written)) is not None:
            await kept
        if (stored := translation.context.stored) is not None:
            written = await keep_reply(stored, written)
        add_loss_header(headers, translation.context.losses)
        response = SlicedResponse(status=answer.status, body=written, content_type="application/json", headers=headers)
        if (recording := self._scope.recording) is not None:
            recording.replied(response.status, response.headers, written)
        self._finish("completed", "completed", answer.status)
        return response

    async def _read_whole(self, answer: UpstreamResponse) -> bytes:
        """Read and translate a reply that is not streamed. Raises DragomanError."""
        translation = self._scope.translation
        try:
            body = await answer.read(translation.context.limits.reply_body)
        except DragomanError as error:
            self._scope.receipt.cut = has_begun(error)
            raise
        if len(body) <= LONG_BODY:
            return translation.reply(body, answer.headers)
        return await compute(len(body), partial(translation.reply, body, answer.headers), self._scope.receipt.owner)

    async def _upstream_error(self, answer: UpstreamResponse) -> web.StreamResponse:
        """Translate an error status. A body that is in the client's envelope already is passed through."""
        scope, receipt = self._scope, self._scope.receipt
        translation, provider = scope.translation, receipt.provider or ""
        error = await write_refusal(answer, scope)
        failure = error.failure
        if failure.kind is FailureKind.NOT_FOUND and not translation.direction.passthrough:
            names = scope.services.known_models.names_at(provider, receipt.key)
            if names and translation.upstream_model not in names:
                failure = replace(failure, message=f"{failure.message}; {provider} has the models {listed(names)}")
                translation.context.failure = failure
                error = translation.error_of(failure)
        if (started := await self._started()) is not None:
            return await self._fail_started(started, failure)
        response = web_response(error, receipt.client, receipt.request_id)
        response.headers.update(scope.rate_headers)
        add_loss_header(response.headers, translation.losses)
        if scope.recording is not None:
            scope.recording.replied_whole(response)
        self._finish(f"refused with {answer.status} ({failure.kind})", "refused", response.status)
        return response

    async def _streamed_reply(
        self, request: web.Request | None, answer: UpstreamResponse, timers: StreamTimers, headers: dict[str, str]
    ) -> web.StreamResponse:
        answer.headers = _NO_HEADERS
        scope, translation = self._scope, self._scope.translation
        stream = self._stream or await open_proxy_stream(translation, answer, timers)
        if (kept := self._note_issuer()) is not None:
            await kept
        if scope.recording is not None:
            stream.observe(scope.recording.wrote)
        if scope.record is not None:
            stream.observe(scope.record)
        downstream = await self._started()
        scope.begun()
        if downstream is None:
            add_loss_header(headers, translation.context.losses)
            downstream = self._downstream(request, headers, timers)
        del headers, request, translation  # 4.8 of the 36 kB of an open stream
        how = "abandoned"  # a client that disconnects cancels this; the receipt must be completed all the same (T-75)
        try:
            how = await send_proxy_stream(downstream, stream, timers)
        finally:
            ended_id = None
            if scope.receipt.runs_on and stream.has_ended:
                scope.receipt.runs_on, ended_id = False, scope.translation.response_id
            self._finish(how, how, STREAM_STATUS)
            if ended_id is not None:
                self._count_own_end(ended_id)
        return downstream.response or web.StreamResponse()  # unused if the handler was detached

    def _note_issuer(self, whole: bytes | None = None) -> Awaitable[None] | None:
        """Keep the provider that issued the response, before the client learns the response's id.

        Return what to await, if other processes are to know it, or if the upstream runs it in the background. `whole`
        is a whole reply.
        """
        expected = self._scope.expected
        if expected is None:
            return None
        self._scope.expected = None
        response_id = self._scope.translation.response_id
        kept = expected.issued(response_id)
        if expected.background and response_id is not None:
            return self._note_run(kept, response_id, whole)
        return kept

    async def _note_run(self, kept: Awaitable[None] | None, response_id: str, whole: bytes | None) -> None:
        from dragoman_server.proxy.upstream_runs import keep_run  # few clients need it

        if kept is not None:
            await kept
        await keep_run(self._scope, response_id, whole)

    def _count_own_end(self, response_id: str) -> None:
        from dragoman_server.proxy.upstream_runs import count_own_end  # few clients need it

        count_own_end(self._scope.services, self._scope.receipt, response_id)

    def _downstream(self, request: web.Request | None, headers: dict[str, str], timers: StreamTimers) -> Downstream:
        scope, recording = self._scope, self._scope.recording
        if scope.open_stream is not None:
            downstream = scope.open_stream(timers, headers)
            if recording is not None:
                recording.replied(STREAM_STATUS, headers)
            return downstream
        assert request is not None
        response = event_stream(headers)
        ping = ping_of(scope.receipt.client, scope.translation.context.knobs.heartbeats)
        if recording is None:
            return DownstreamResponse(request, response, timers, ping)
        recording.replied(STREAM_STATUS, headers)
        return RecordedDownstream(request, response, timers, ping, recording)

    def _own_headers(self) -> dict[str, str]:
        """Return the headers that do not depend on the upstream's response."""
        receipt = self._scope.receipt
        own = receipt.request_id
        headers = {receipt.client.request_id_header: own, OWN_ID: own, **self._scope.rate_headers}
        add_loss_header(headers, self._scope.translation.losses)
        return headers

    def _headers(self, translation: Translation, answer: UpstreamResponse) -> dict[str, str]:
        scope = self._scope
        headers = translation.reply_headers(answer.headers, rate_limits=not scope.rate_headers)
        headers[OWN_ID] = scope.receipt.request_id
        if scope.rate_headers:
            headers.update(scope.rate_headers)
        return headers

    def _finish(self, how: str, ended: str, status: int) -> None:
        """Log the request's line and complete the receipt."""
        scope, receipt, translation = self._scope, self._scope.receipt, self._scope.translation
        losses, failure = translation.context.losses, translation.context.failure
        if failure is not None and ended != "refused":
            ended = ended_by(failure)
            how = f"{ended} in the stream ({error_word(failure)})"
        level, note = logging.INFO, ""
        if failure is not None:
            level, note = scope.warnings.level(receipt.provider, failure)
        if log.isEnabledFor(level):
            summary = f"{direction_text(translation)} {how}"
            line = request_line(receipt, summary, ended, status, scope.seconds(), error=failure, note=note)
            log_request(level, line)
            if log.isEnabledFor(logging.DEBUG):
                for code, path, done in losses.rows:
                    log.debug("%s loss %s at %s: %s", receipt.request_id, code, quote(path), quote(done))
        scope.end(ended, status)
