"""The upstream's response to a forwarded request becomes the client's: JSON whole, everything else while it arrives."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from aiohttp import web

from dragoman import DragomanError, Failure, Translation
from dragoman.aio import SlicedResponse, StreamTimers, UpstreamResponse, unsent
from dragoman.gateway import ForwardedEvents
from dragoman_server.observability.access_log import exchange_text, request_line
from dragoman_server.observability.attempt_usage import has_begun
from dragoman_server.observability.captures.recording import binary_type
from dragoman_server.observability.logs import log_request
from dragoman_server.proxy.error_ladder import failure_of
from dragoman_server.proxy.error_response import OWN_ID, web_response
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.recorded_reply import RecordedResponse
from dragoman_server.proxy.refusal import write_refusal
from dragoman_server.receipt import ended_by
from dragoman_server.scope import RequestScope

log = logging.getLogger("dragoman")
EVENTS = "text/event-stream"
_TYPE_MAX = 200
_ANY = "application/octet-stream"


class Sent(NamedTuple):
    """A response that was sent, or that is ready to be sent. `ended` and `failure` are for the receipt."""

    response: web.StreamResponse
    ended: str
    failure: Failure | None = None


class _ClientConnection:
    """The client's side of a response, for the timers. Forwarded endpoints have no heartbeats."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    def send_heartbeat(self) -> None:
        """Send nothing: no form of reply has room for it."""

    def abort(self) -> None:
        """Close the client's connection at once."""
        if self._request.transport is not None:
            self._request.transport.abort()

    def unsent(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        return unsent(self._request.transport)

    def detach(self) -> None:
        """Free nothing: these replies are short."""


class ForwardedReply:
    """The reply to one forwarded request. `answer` builds the client's response and completes the receipt."""

    __slots__ = ("_batches", "_first", "_scope", "_whole")

    def __init__(self, scope: RequestScope) -> None:
        self._scope = scope
        self._whole: bytes | None = None
        """The body of a reply of JSON, once it was read."""
        self._first = b""
        """The first bytes of any other one."""
        self._batches: AsyncGenerator[bytes, None] | None = None
        """The rest, once the first bytes were read."""

    async def begin(self, answer: UpstreamResponse, timers: StreamTimers) -> Failure | None:
        """Read a reply of JSON, or the first bytes of another one. Raises DragomanError."""
        if _is_json(answer.headers):
            try:
                self._whole = await answer.read(self._scope.translation.context.limits.reply_body)
            except DragomanError as error:
                self._scope.receipt.cut = has_begun(error)
                raise
            return None
        batches = answer.batches()
        try:
            self._first = await anext(batches, b"")
        except BaseException:
            await batches.aclose()
            raise
        self._batches = batches
        return None

    async def drop(self) -> None:
        """Drop nothing: no attempt follows one whose reply has begun."""

    async def answer(self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers) -> web.StreamResponse:
        """Return the client's response, which has been sent already unless it is JSON.

        Raises DragomanError for a failure before the response has begun.
        """
        sent = await self.send(request, answer, timers)
        recording, response = self._scope.recording, sent.response
        if recording is not None and isinstance(response, web.Response):
            recording.replied_whole(response)
        self._finish(sent)
        return response

    async def send(self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers) -> Sent:
        """Return the client's response, and how the exchange ends. Raises as `answer` does."""
        if not 200 <= answer.status < 300:
            return await self._refusal(answer)
        if self._whole is None and self._batches is None:
            await self.begin(answer, timers)
        if self._whole is None:
            return await self._stream(request, answer, timers)
        job = partial(self._scope.translation.forwarded_reply, self._whole)
        headers = self._headers(answer)
        written = await compute(len(self._whole), job, self._scope.receipt.owner, request)
        return Sent(SlicedResponse(status=answer.status, body=written, headers=headers), "completed")

    async def _refusal(self, answer: UpstreamResponse) -> Sent:
        """Return the client's response for an upstream's error status."""
        receipt = self._scope.receipt
        error = await write_refusal(answer, self._scope)
        response = web_response(error, receipt.client, receipt.request_id)
        response.headers.update(self._scope.rate_headers)
        return Sent(response, "refused", error.failure)

    async def _stream(self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers) -> Sent:
        """Send the body while it arrives. The upstream is read no faster than the client reads."""
        translation, batches = self._scope.translation, self._batches
        assert batches is not None
        headers, events = self._headers(answer), None
        if headers["Content-Type"].lower().startswith(EVENTS):
            context = translation.context
            events = ForwardedEvents(context.limits, context.secrets, context.own_key)
            headers["Cache-Control"] = "no-cache"
            headers["X-Accel-Buffering"] = "no"
        response = self._stream_response(answer.status, headers)
        if events is None and (length := _length(answer.headers)) is not None:
            response.content_length = length
        client = _ClientConnection(request)
        async with aclosing(batches):
            timers.attach_sink(client)
            await response.prepare(request)
            translation.stream = True
            self._scope.begun()
            try:
                failure = await self._send_batches(response, batches, events, timers)
            except Exception as error:
                if (failure := failure_of(error)) is None:
                    raise
                if not isinstance(error, DragomanError):
                    log.exception("%s failed by a defect", self._scope.receipt.request_id)
            finally:
                if events is not None:
                    translation.record_usage(events.usage, events.written, events.service)
            if failure is not None:
                return await _cut(translation, response, client, failure, events=events is not None)
        return Sent(response, "completed")

    async def _send_batches(
        self,
        response: web.StreamResponse,
        batches: AsyncGenerator[bytes, None],
        events: ForwardedEvents | None,
        timers: StreamTimers,
    ) -> Failure | None:
        """Send the body. Return the failure in which a stream of events has ended."""
        data, self._first = self._first, b""
        while data:
            if events is not None:
                data = events.feed(data)
            if data:
                timers.writing()
                await response.write(data)
                timers.written()
            if events is not None and (events.done or events.failure is not None):
                break
            data = await anext(batches, b"")
        timers.upstream_done()
        timers.writing()
        rest = events.finish() if events is not None else b""
        if events is not None and events.failure is not None:
            if rest:
                await response.write(rest)
            return events.failure
        await response.write_eof(rest)
        timers.written()
        return None

    def _stream_response(self, status: int, headers: dict[str, str]) -> web.StreamResponse:
        recording = self._scope.recording
        if recording is None:
            return web.StreamResponse(status=status, headers=headers)
        recording.reply.omitted = binary_type(headers["Content-Type"])
        recording.replied(status, headers)
        return RecordedResponse(recording, status, headers)

    def _headers(self, answer: UpstreamResponse) -> dict[str, str]:
        scope = self._scope
        headers = scope.translation.reply_headers(answer.headers, rate_limits=not scope.rate_headers)
        headers[OWN_ID] = scope.receipt.request_id
        headers.update(scope.rate_headers)
        headers["Content-Type"] = _content_type(answer.headers)
        return headers

    def _finish(self, sent: Sent) -> None:
        """Log the request's line and complete the receipt."""
        scope, receipt = self._scope, self._scope.receipt
        failure, status = sent.failure, sent.response.status
        level, note = logging.INFO, ""
        if failure is not None:
            level, note = scope.warnings.level(receipt.provider, failure)
        if log.isEnabledFor(level):
            refused = f"refused with {status if failure is None else failure.status}"
            how = {"refused": refused, "failed": "failed in the reply"}.get(sent.ended, sent.ended)
            summary = f"{exchange_text(receipt, scope.translation)} {how}"
            line = request_line(receipt, summary, sent.ended, status, scope.seconds(), error=failure, note=note)
            log_request(level, line)
        scope.end(sent.ended, status, failure)


async def _cut(
    translation: Translation,
    response: web.StreamResponse,
    client: _ClientConnection,
    failure: Failure,
    *,
    events: bool,
) -> Sent:
    """End a response that has begun: an event stream with an error, any other by closing the connection."""
    failure = translation.error_of(failure).failure
    if events:
        await response.write(b"\n\n" + translation.error_stream(failure))
        await response.write_eof()
    else:
        client.abort()
    return Sent(response, ended_by(failure), failure)


def _is_json(headers: Mapping[str, str]) -> bool:
    return _content_type(headers).partition(";")[0].strip().lower().endswith("json")


def _content_type(headers: Mapping[str, str]) -> str:
    value = headers.get("content-type", "")
    return value if value and len(value) <= _TYPE_MAX and value.isascii() and value.isprintable() else _ANY


def _length(headers: Mapping[str, str]) -> int | None:
    """Return the length of the body, None if it is not known or the body was compressed."""
    value = headers.get("content-length", "")
    return int(value) if value.isdecimal() and len(value) < 16 and "content-encoding" not in headers else None
