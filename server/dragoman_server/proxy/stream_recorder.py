"""Interface of what records single streams. A gateway without one runs as if there was no such thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from dragoman.aio import CallObserver, UpstreamRequest


class StreamRecording(Protocol):
    """The recording of both sides of one stream."""

    def observe(self, call: UpstreamRequest) -> CallObserver:
        """Return what records the upstream's side."""
        ...

    def sent(self, data: bytes) -> None:
        """Record a batch that is sent to the client."""
        ...


class StreamRecorder(Protocol):
    """Decides which requests are recorded. It is set only while it may record some."""

    def begin(self, request: web.Request, request_id: str, clock: Callable[[], float]) -> StreamRecording | None:
        """Return the recording of a request; None if it is not recorded. `clock` returns seconds since it arrived."""
        ...
