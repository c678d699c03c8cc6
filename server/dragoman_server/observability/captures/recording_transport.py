"""A transport that records the requests of one exchange, and their replies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from dragoman import DragomanError, Translation
from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman_server.observability.captures.recording import RecordedAttempt, Recording


class RecordingTransport:
    """Wraps the transport `inner`. `current` returns the translation and the provider of the request to be sent."""

    def __init__(self, inner: Transport, recording: Recording, current: Callable[[], tuple[Translation, str]]) -> None:
        self._inner = inner
        self._recording = recording
        self._current = current

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError."""
        recording = self._recording
        translation, provider = self._current()
        recording.translated(translation)
        attempt = recording.sent(request, provider)
        try:
            response = await self._inner.open(request, timers)
        except DragomanError as error:
            attempt.error = error.failure
            raise
        attempt.status, attempt.reply_headers = response.status, response.headers
        attempt.answered = recording.seconds()
        return _RecordedResponse(response, recording, attempt)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request with the body `upload`, which is not recorded."""
        return await self._inner.open_upload(request, upload, timers)

    async def close(self) -> None:
        """Leave the transport open: others use it as well."""


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
