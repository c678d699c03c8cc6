"""The upstream's response to a forwarded request becomes the client's: JSON whole, everything else while it arrives."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from aiohttp import web

from dragoman import DragomanError, Failure, Translation, UpstreamError
from dragoman.aio import DEFECT, ClientGone, SlicedResponse, StreamTimers, UpstreamResponse
from dragoman.gateway import ForwardedEvents
from dragoman_server.observability.receipts import Receipt, ended_by
from dragoman_server.proxy.error_response import OWN_ID, web_response
from dragoman_server.proxy.long_bodies import compute

log = logging.getLogger("dragoman")
EVENTS = "text/event-stream"
_TYPE_MAX = 200
_ANY = "application/octet-stream"


@dataclass(slots=True)
class Sent:
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

    def detach(self) -> None:
        """Free nothing: these replies are short."""


@dataclass(slots=True)
class ForwardedReply:
    """Sends the response of one request. `limits` are headers with the rate limits of the client's key."""

    request: web.Request
    receipt: Receipt
    translation: Translation
    limits: Mapping[str, str]

    async def send(self, answer: UpstreamResponse, timers: StreamTimers) -> Sent:
        """Return the client's response. Raises DragomanError for a failure before the response has begun."""
        if not 200 <= answer.status < 300:
            return await self._refusal(answer)
        content_type = _content_type(answer.headers)
        if content_type.partition(";")[0].strip().lower().endswith("json"):
            body = await answer.read(self.translation.context.limits.reply_body)
            headers = self._headers(answer, content_type)
            job = partial(self.translation.forwarded_reply, body)
            written = await compute(len(body), job, self.receipt.owner, self.request)
            return Sent(SlicedResponse(status=answer.status, body=written, headers=headers), "completed")
        return await self._stream(answer, timers, content_type)

    async def _refusal(self, answer: UpstreamResponse) -> Sent:
        """Return the client's response for an upstream's error status."""
        translation = self.translation
        try:
            body = await answer.read(translation.context.limits.reply_body)
        except UpstreamError:
            body = b""  # the status is what matters: clients decide by it whether to retry
        error = translation.error(answer.status, body, answer.headers)
        response = web_response(error, self.receipt.client, self.receipt.request_id)
        response.headers.update(self.limits)
        return Sent(response, "refused", error.failure)

    async def _stream(self, answer: UpstreamResponse, timers: StreamTimers, content_type: str) -> Sent:
        """Send the body while it arrives. The upstream is read no faster than the client reads."""
        events = content_type.lower().startswith(EVENTS)
        context = self.translation.context
        stream = ForwardedEvents(context.limits, context.secrets, context.own_key) if events else None
        headers = self._headers(answer, content_type)
        if events:
            headers["Cache-Control"] = "no-cache"
            headers["X-Accel-Buffering"] = "no"
        response = self._stream_response(answer.status, headers)
        if stream is None and (length := _length(answer.headers)) is not None:
            response.content_length = length
        async with aclosing(answer.batches()) as batches:
            data = await anext(batches, b"")
            client = _ClientConnection(self.request)
            timers.attach_sink(client)
            await response.prepare(self.request)
            self.translation.stream = True
            self.receipt.begin()
            try:
                while data:
                    if stream is not None:
                        data = stream.feed(data)
                    if data:
                        timers.writing()
                        await response.write(data)
                        timers.written()
                    if stream is not None and (stream.done or stream.failure is not None):
                        break
                    data = await anext(batches, b"")
                timers.upstream_done()
                timers.writing()
                rest = stream.finish() if stream is not None else b""
                if stream is not None and stream.failure is not None:
                    if rest:
                        await response.write(rest)
                    return await self._cut(response, client, stream.failure, events=True)
                await response.write_eof(rest)
                timers.written()
            except (ClientGone, ConnectionError):
                raise
            except Exception as error:
                if not isinstance(error, DragomanError):
                    log.exception("%s failed by a defect", self.receipt.request_id)
                failure = error.failure if isinstance(error, DragomanError) else replace(DEFECT)
                return await self._cut(response, client, failure, events=events)
            finally:
                if stream is not None:
                    self.translation.record_usage(stream.usage, stream.written)
        return Sent(response, "completed")

    def _stream_response(self, status: int, headers: dict[str, str]) -> web.StreamResponse:
        return web.StreamResponse(status=status, headers=headers)

    async def _cut(
        self, response: web.StreamResponse, client: _ClientConnection, failure: Failure, *, events: bool
    ) -> Sent:
        """End a response that has begun: an event stream with an error, any other by closing the connection."""
        failure = self.translation.error_of(failure).failure
        if events:
            await response.write(b"\n\n" + self.translation.error_stream(failure))
            await response.write_eof()
        else:
            client.abort()
        return Sent(response, ended_by(failure), failure)

    def _headers(self, answer: UpstreamResponse, content_type: str) -> dict[str, str]:
        headers = self.translation.reply_headers(answer.headers, rate_limits=not self.limits)
        headers[OWN_ID] = self.receipt.request_id
        headers.update(self.limits)
        headers["Content-Type"] = content_type
        return headers


def _content_type(headers: Mapping[str, str]) -> str:
    value = headers.get("content-type", "")
    return value if value and len(value) <= _TYPE_MAX and value.isascii() and value.isprintable() else _ANY


def _length(headers: Mapping[str, str]) -> int | None:
    """Return the length of the body, None if it is not known or the body was compressed."""
    value = headers.get("content-length", "")
    return int(value) if value.isdecimal() and len(value) < 16 and "content-encoding" not in headers else None
