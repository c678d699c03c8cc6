"""An exchange that is captured: the client's reply is recorded while it is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from dragoman import Failure, Translation
from dragoman.aio import (
    Downstream,
    DownstreamResponse,
    EventStream,
    ObservedTransport,
    StreamTimers,
    Transport,
    UpstreamResponse,
    open_proxy_stream,
    ping_of,
)
from dragoman.gateway import is_secret
from dragoman_server.observability.captures.attempt_recorder import AttemptRecorder
from dragoman_server.observability.captures.captures import HEADER, VIOLATION, Captures
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.known_secrets import configured_secrets
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.auth import Caller, inbound_key
from dragoman_server.proxy.exchange import STREAM_STATUS, Exchange, event_stream
from dragoman_server.proxy.web_origins import may_capture


def begin_recording(captures: Captures, request: web.Request, receipt: Receipt, caller: Caller) -> Recording | None:
    """Return the recording of a request that was admitted, or None if it is not captured."""
    value = request.headers.get(HEADER)
    admin = value is not None and may_capture(request, caller)
    reason = captures.reason(value, admin=admin, by_key=caller.key is not None and caller.key.capture)
    return _begin(captures, request, receipt, reason) if reason is not None else None


def record_validated(
    captures: Captures, request: web.Request, receipt: Receipt, caller: Caller, body: bytes
) -> Recording | None:
    """Return the recording of a stream that is validated, or None if it is not recorded.

    It is kept only if the stream breaks the grammar of its client's dialect. `body` is the client's.
    """
    value = request.headers.get(HEADER)
    if captures.declined(value, admin=value is not None and may_capture(request, caller)):
        return None
    recording = _begin(captures, request, receipt, VIOLATION)
    if recording is not None:
        recording.received(body)
    return recording


def _begin(captures: Captures, request: web.Request, receipt: Receipt, reason: str) -> Recording | None:
    headers = request.headers
    secrets, key = configured_secrets(), inbound_key(headers)
    if key is not None and is_secret(key):
        secrets += (key,)
    recording = captures.record(receipt.request_id, reason, secrets, receipt.endpoint)
    if recording is not None:
        recording.requested(request.method, request.path_qs, headers.items())
    return recording


@dataclass(slots=True)
class CapturedExchange(Exchange):
    """An `Exchange` with a recording. Its requests must be sent by `transport`."""

    recording: Recording = field(kw_only=True)

    def transport(self, inner: Transport) -> Transport:
        """Return a transport that records what it sends and receives."""
        return ObservedTransport(inner, partial(AttemptRecorder, self.recording, self._current))

    def _current(self) -> tuple[Translation, str]:
        return self.translation, self.provider

    async def _streamed_reply(
        self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers, headers: dict[str, str]
    ) -> web.StreamResponse:
        stream = self.stream or await open_proxy_stream(self.translation, answer, timers)
        stream.error_tail = partial(self._error_tail, stream.error_tail)
        stream.batches = self._batches(stream.batches)
        self.stream = stream
        return await Exchange._streamed_reply(self, request, answer, timers, headers)

    async def _batches(self, batches: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(batches):
            async for data in batches:
                self.recording.wrote(data)
                yield data

    def _error_tail(self, error_tail: Callable[[Failure], bytes], failure: Failure) -> bytes:
        tail = error_tail(failure)
        self.recording.wrote(tail)
        return tail

    def _downstream(self, request: web.Request, headers: dict[str, str], timers: StreamTimers) -> Downstream:
        response = event_stream(headers)
        if self.open_stream is not None:
            downstream = self.open_stream(timers, headers)
            self.recording.replied(STREAM_STATUS, headers)
            return downstream
        self.recording.replied(STREAM_STATUS, headers)
        ping = ping_of(self.client, self.translation.context.knobs.heartbeats)
        return _RecordedDownstream(request, response, timers, ping, self.recording)

    async def _write_to_started(self, client: Downstream, body: bytes) -> web.StreamResponse:
        self.recording.wrote(body)
        return await Exchange._write_to_started(self, client, body)

    def _json_response(self, answer: UpstreamResponse, body: bytes, headers: dict[str, str]) -> web.Response:
        response = Exchange._json_response(self, answer, body, headers)
        self.recording.replied(response.status, response.headers, body)
        return response

    async def _upstream_error(self, answer: UpstreamResponse) -> web.StreamResponse:
        response = await Exchange._upstream_error(self, answer)
        if isinstance(response, web.Response):
            self.recording.replied_whole(response)
        return response


class _RecordedDownstream(DownstreamResponse):
    """A response whose heartbeats are recorded when they are due; none is sent while the client does not read."""

    __slots__ = ("_recording",)

    def __init__(
        self, request: web.Request, response: EventStream, timers: StreamTimers, ping: bytes, recording: Recording
    ) -> None:
        super().__init__(request, response, timers, ping)
        self._recording = recording

    def send_heartbeat(self) -> None:
        """Record and send a heartbeat."""
        self._recording.beat()
        super().send_heartbeat()
