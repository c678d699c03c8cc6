"""The client's reply of an exchange that is captured, recorded while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import LooseHeaders

from dragoman.aio import DownstreamResponse, EventStream, StreamTimers

if TYPE_CHECKING:
    from dragoman_server.observability.captures.recording import Recording


class RecordedDownstream(DownstreamResponse):
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


class RecordedResponse(web.StreamResponse):
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
