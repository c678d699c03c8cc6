"""Records the shapes of both sides of a stream: which events of which length came and went when, without texts.

Streams are recorded only while a page has asked for the next ones, or if the playground sends them. All others run
without this module. A recorded stream pays for one more parser on each side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from dragoman.aio import CallObserver, UpstreamRequest
from dragoman.wire import Json, SSEParser
from dragoman_server.endpoints.console.frame_shape import FrameShape, shape_of
from dragoman_server.proxy.instruments import Instruments

_RECORD = web.RequestKey("dragoman.console.record", bool)
"""Marks a request of the playground."""
NEXT_MAX = 20
"""Most requests that are recorded after one order."""
RECORDINGS_MAX = 30
"""Most recordings that are kept; the oldest is dropped first."""
FRAMES_MAX = 1500
"""Most frames of one recording, of both sides together; further ones are counted."""


class ShownRecording:
    """Both sides of one exchange. `clock` returns the seconds since the request arrived.

    `frames` has a list for each batch: its side (`received` from the upstream or `sent` to the client), its time, its
    bytes, and the shapes of its frames.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._parsers = {"received": SSEParser(), "sent": SSEParser()}
        self._count = 0
        self.dropped = 0
        """Frames that were not kept."""
        self.batches: list[tuple[str, float, int, list[FrameShape]]] = []
        self.sizes: dict[str, int] = {}
        """Bytes of the request that was sent, of a whole reply, and of each side of a stream."""

    def add(self, side: str, data: bytes) -> None:
        """Record a batch of a stream."""
        self.sizes[side] = self.sizes.get(side, 0) + len(data)
        frames = self._parsers[side].parse(data)
        room = FRAMES_MAX - self._count
        self.dropped += max(0, len(frames) - room)
        frames = frames[: max(0, room)]
        self._count += len(frames)
        if frames:
            self.batches.append((side, round(self._clock(), 4), len(data), [shape_of(frame) for frame in frames]))

    def observe(self, call: UpstreamRequest) -> CallObserver:
        """Return what records the upstream's side."""
        return _UpstreamSide(self, call)

    def sent(self, data: bytes) -> None:
        """Record a batch that is sent to the client."""
        self.add("sent", data)

    def json(self) -> Json:
        """Return the recording."""
        return {"batches": self.batches, "dropped": self.dropped, "sizes": self.sizes}


class Recorder:
    """The recordings of one gateway, by the ids of their requests. It is the gateway's recorder while it is needed."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._remaining = 0
        """The number of next requests to record."""
        self._expected = 0
        """The number of open requests of the playground."""
        self._recordings: dict[str, ShownRecording] = {}

    @property
    def remaining(self) -> int:
        """The number of next requests to record."""
        return self._remaining

    def record_next(self, count: int) -> None:
        """Record the next requests, at most `NEXT_MAX`; 0 stops."""
        self._remaining = max(0, min(NEXT_MAX, count))
        self._set()

    @contextmanager
    def recording(self, request: web.Request) -> Iterator[None]:
        """Record this request, which the gateway answers within the block."""
        request[_RECORD] = True
        self._expected += 1
        self._set()
        try:
            yield
        finally:
            self._expected -= 1
            self._set()

    def _set(self) -> None:
        self._instruments.recorder = self if self._remaining or self._expected else None

    def get(self, request_id: str) -> ShownRecording | None:
        """Return the recording of a request, or None."""
        return self._recordings.get(request_id)

    def begin(self, request: web.Request, request_id: str, clock: Callable[[], float]) -> ShownRecording | None:
        """Return the recording of a request, as `StreamRecorder` requires."""
        if _RECORD not in request:
            if not self._remaining:
                return None
            self.record_next(self._remaining - 1)
        if len(self._recordings) >= RECORDINGS_MAX:
            del self._recordings[next(iter(self._recordings))]
        recording = self._recordings[request_id] = ShownRecording(clock)
        return recording


class _UpstreamSide(CallObserver):
    """Records the upstream's side of an exchange."""

    def __init__(self, recording: ShownRecording, call: UpstreamRequest) -> None:
        recording.sizes["request"] = len(call.body)
        self._recording = recording

    def received(self, data: bytes) -> None:
        """Record a batch of a stream."""
        self._recording.add("received", data)

    def read(self, body: bytes) -> None:
        """Record the size of a whole reply."""
        self._recording.sizes["reply"] = len(body)
