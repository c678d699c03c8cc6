"""Records the upstream requests of one exchange, and their replies."""

from __future__ import annotations

from collections.abc import Callable

from dragoman import DragomanError, Translation
from dragoman.aio import CallObserver, UpstreamRequest, UpstreamResponse
from dragoman_server.observability.captures.recording import Recording, binary_type


class AttemptRecorder(CallObserver):
    """Records one upstream request. `current` returns its translation and its provider.

    Of uploads, and of `forwarded` replies that are no texts, only the type and the size are recorded.
    """

    def __init__(
        self,
        recording: Recording,
        current: Callable[[], tuple[Translation, str]],
        request: UpstreamRequest,
        *,
        forwarded: bool = False,
    ) -> None:
        translation, provider = current()
        recording.translated(translation)
        self._recording = recording
        self._forwarded = forwarded
        self._attempt = recording.sent(request, provider)
        self._upload_type = binary_type(request.headers.get("content-type", ""))

    def uploaded(self, size: int) -> None:
        """Record the size of a piece of an upload."""
        self._attempt.omitted = self._upload_type
        self._attempt.body_size += size

    def answered(self, response: UpstreamResponse) -> None:
        """Record the head of the reply."""
        attempt = self._attempt
        attempt.status, attempt.reply_headers = response.status, response.headers
        attempt.answered = self._recording.seconds()
        if self._forwarded:
            attempt.reply.omitted = binary_type(response.headers.get("content-type", ""))

    def received(self, data: bytes) -> None:
        """Record a part of the reply."""
        self._attempt.reply.add(data, self._recording.seconds())

    def failed(self, error: DragomanError) -> None:
        """Record the failure of the connection or of a timer."""
        self._attempt.error = error.failure
