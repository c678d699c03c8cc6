"""A forwarded reply that is captured: it is recorded while it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from aiohttp import web
from aiohttp.typedefs import LooseHeaders

from dragoman import Translation
from dragoman.aio import ObservedTransport, StreamTimers, Transport, UpstreamResponse
from dragoman_server.endpoints.forward.reply import ForwardedReply, Sent
from dragoman_server.observability.captures.attempt_recorder import AttemptRecorder
from dragoman_server.observability.captures.recording import Recording, binary_type
from dragoman_server.observability.receipts import Receipt


def recording_transport(inner: Transport, receipt: Receipt, recording: Recording) -> Transport:
    """Return a transport that records what it sends and receives for a forwarded request."""

    def current() -> tuple[Translation, str]:
        assert receipt.translation is not None
        return receipt.translation, receipt.provider or ""

    return ObservedTransport(inner, partial(AttemptRecorder, recording, current, forwarded=True))


@dataclass(slots=True)
class CapturedReply(ForwardedReply):
    """A `ForwardedReply` with a recording."""

    recording: Recording = field(kw_only=True)

    async def send(self, answer: UpstreamResponse, timers: StreamTimers) -> Sent:
        """Return the client's response, as `ForwardedReply.send` does."""
        sent = await ForwardedReply.send(self, answer, timers)
        if isinstance(sent.response, web.Response):
            self.recording.replied_whole(sent.response)
        return sent

    def _stream_response(self, status: int, headers: dict[str, str]) -> web.StreamResponse:
        self.recording.reply.omitted = binary_type(headers["Content-Type"])
        self.recording.replied(status, headers)
        return _RecordedResponse(self.recording, status, headers)


class _RecordedResponse(web.StreamResponse):
    """A response whose writes are recorded."""

    def __init__(self, recording: Recording, status: int, headers: LooseHeaders) -> None:
        super().__init__(status=status, headers=headers)
        self._recording = recording

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record and write a piece of the body. Raises ConnectionError if the client has disconnected."""
        self._recording.wrote(bytes(data))
        await super().write(data)

    async def write_eof(self, data: bytes = b"") -> None:
        """Record and write the last piece of the body. Raises ConnectionError if the client has disconnected."""
        self._recording.wrote(data)
        await super().write_eof(data)
