"""A transport that reports its requests and replies to a listener: the upstream's side of the demo."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Protocol

from dragoman import UpstreamError
from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse


class Listener(Protocol):
    """Receives each event of an upstream request, in order. Its methods must not block."""

    def sent(self, call: UpstreamRequest) -> None:
        """Called when a request is sent."""
        ...

    def received(self, data: bytes) -> None:
        """Called for each network read of the reply."""
        ...

    def cut(self) -> None:
        """Called when the upstream's connection failed in the middle of the reply."""
        ...

    def stopped(self) -> None:
        """Called when the gateway stops reading: the reply is complete, or the gateway needs no more of it."""
        ...


class RecordingTransport:
    """Wraps the transport `inner` and reports to `listener` while one is set."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.listener: Listener | None = None

    async def open(self, call: UpstreamRequest, watch: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response."""
        listener = self.listener
        if listener is None:
            return await self._inner.open(call, watch)
        listener.sent(call)
        return _RecordedResponse(await self._inner.open(call, watch), listener)

    async def open_upload(self, call: UpstreamRequest, upload: Upload, watch: StreamTimers) -> UpstreamResponse:
        """Send a request with the body `upload`, which is not reported."""
        return await self._inner.open_upload(call, upload, watch)

    async def close(self) -> None:
        """Close all connections."""
        await self._inner.close()


class _RecordedResponse:
    """A response that reports to the listener while it is read."""

    def __init__(self, inner: UpstreamResponse, listener: Listener) -> None:
        self._inner = inner
        self._listener = listener
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises UpstreamError."""
        body = await self._inner.read(limit)
        self._listener.received(body)
        return body

    async def close(self) -> None:
        """Return the connection to the pool, or close it."""
        await self._inner.close()

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, one network read at a time."""
        try:
            async with aclosing(self._inner.batches()) as source:
                async for data in source:
                    self._listener.received(data)
                    yield data
        except GeneratorExit:
            self._listener.stopped()
            raise
        except UpstreamError:
            self._listener.cut()
            raise
