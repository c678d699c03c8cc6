"""A transport that records the requests of one exchange, and their replies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from dragoman import DragomanError, Translation
from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman_server.observability.captures.recording import RecordedAttempt, Recording, binary_type


class RecordingTransport:
    """Wraps the transport `inner`. `current` returns the translation and the provider of the request to be sent.

    Of `forwarded` replies that are no texts, only the type and the size are recorded.
    """

    def __init__(
        self,
        inner: Transport,
        recording: Recording,
        current: Callable[[], tuple[Translation, str]],
        *,
        forwarded: bool = False,
    ) -> None:
        self._inner = inner
        self._recording = recording
        self._current = current
        self._forwarded = forwarded

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError."""
        attempt = self._begin(request)
        return await self._recorded(attempt, self._inner.open(request, timers))

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request with the body `upload`, of which only the type and the size are recorded."""
        attempt = self._begin(request)
        attempt.omitted = binary_type(request.headers.get("content-type", ""))
        upload = replace(upload, pieces=_measured(upload.pieces, attempt))
        return await self._recorded(attempt, self._inner.open_upload(request, upload, timers))

    def _begin(self, request: UpstreamRequest) -> RecordedAttempt:
        translation, provider = self._current()
        self._recording.translated(translation)
        return self._recording.sent(request, provider)

    async def _recorded(
        self, attempt: RecordedAttempt, opening: Coroutine[Any, Any, UpstreamResponse]
    ) -> UpstreamResponse:
        recording = self._recording
        try:
            response = await opening
        except DragomanError as error:
            attempt.error = error.failure
            raise
        attempt.status, attempt.reply_headers = response.status, response.headers
        attempt.answered = recording.seconds()
        if self._forwarded:
            attempt.reply.omitted = binary_type(response.headers.get("content-type", ""))
        return _RecordedResponse(response, recording, attempt)

    async def close(self) -> None:
        """Leave the transport open: others use it as well."""


async def _measured(pieces: AsyncIterable[bytes], attempt: RecordedAttempt) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body, and record their size."""
    async for piece in pieces:
        attempt.body_size += len(piece)
        yield piece


class _RecordedResponse:
    """A response that is recorded while it is read."""

    def __init__(self, inner: UpstreamResponse, recording: Recording, attempt: RecordedAttempt) -> None:
        self._inner = inner
        self._recording = recording
        self._attempt = attempt
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        self.on_arrival: Callable[[Callable[[], None] | None], None] | None = getattr(inner, "on_arrival", None)

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises DragomanError."""
        try:
            body = await self._inner.read(limit)
        except DragomanError as error:
            self._attempt.error = error.failure
            raise
        self._attempt.reply.add(body, self._recording.seconds())
        return body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, one network read at a time. Raises DragomanError."""
        try:
            async with aclosing(self._inner.batches()) as source:
                async for data in source:
                    self._attempt.reply.add(data, self._recording.seconds())
                    yield data
        except DragomanError as error:
            self._attempt.error = error.failure
            raise

    async def close(self) -> None:
        """Close the response."""
        await self._inner.close()
