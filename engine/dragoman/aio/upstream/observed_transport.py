"""A transport whose requests are observed: what is sent, and what comes back when."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.upstream.interface import Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.errors import DragomanError


class CallObserver:
    """Observes one upstream request: a base class whose methods do nothing. They must not block."""

    def uploaded(self, size: int) -> None:
        """Called before a piece of an upload is sent."""

    def answered(self, response: UpstreamResponse) -> None:
        """Called when the head of the response has arrived."""

    def received(self, data: bytes) -> None:
        """Called for each network read of the body."""

    def read(self, body: bytes) -> None:
        """Called for a body that is read at once."""
        self.received(body)

    def failed(self, error: DragomanError) -> None:
        """Called when the request cannot be sent, or the reply ends with an error."""

    def stopped(self) -> None:
        """Called when the reply is read no further: it is complete, or no more of it is needed."""


class ObservedTransport:
    """Sends by the transport `inner`. `observe` returns the observer of a request, None for one that has none."""

    def __init__(self, inner: Transport, observe: Callable[[UpstreamRequest], CallObserver | None]) -> None:
        self._inner = inner
        self._observe = observe

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send a request, as `Transport.open` does."""
        observer = self._observe(request)
        opening = self._inner.open(request, timers)
        return await (opening if observer is None else _observed(observer, opening))

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request with the body `upload`, as `Transport.open_upload` does."""
        observer = self._observe(request)
        if observer is None:
            return await self._inner.open_upload(request, upload, timers)
        upload = replace(upload, pieces=_uploaded(upload.pieces, observer))
        return await _observed(observer, self._inner.open_upload(request, upload, timers))

    async def close(self) -> None:
        """Close the transport `inner`."""
        await self._inner.close()


async def _observed(observer: CallObserver, opening: Coroutine[Any, Any, UpstreamResponse]) -> UpstreamResponse:
    try:
        response = await opening
    except DragomanError as error:
        observer.failed(error)
        raise
    observer.answered(response)
    return ObservedResponse(response, observer)


async def _uploaded(pieces: AsyncIterable[bytes], observer: CallObserver) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        observer.uploaded(len(piece))
        yield piece


class ObservedResponse:
    """The response `inner`, observed while it is read."""

    def __init__(self, inner: UpstreamResponse, observer: CallObserver) -> None:
        self._inner = inner
        self._observer = observer
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        if (on_arrival := getattr(inner, "on_arrival", None)) is not None:
            self.on_arrival = on_arrival

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises as `UpstreamResponse.read` does."""
        try:
            body = await self._inner.read(limit)
        except DragomanError as error:
            self._observer.failed(error)
            raise
        self._observer.read(body)
        return body

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, one network read at a time. Raises as `UpstreamResponse.batches` does."""
        try:
            async with aclosing(self._inner.batches()) as source:
                async for data in source:
                    self._observer.received(data)
                    yield data
        except GeneratorExit:
            self._observer.stopped()
            raise
        except DragomanError as error:
            self._observer.failed(error)
            raise

    async def close(self) -> None:
        """Close the response."""
        await self._inner.close()
