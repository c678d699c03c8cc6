"""A transport that also shows what goes over it: the upstream's side of the picture."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Protocol

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.upstream.interface import Transport, UpstreamRequest, UpstreamResponse
from dragoman.errors import UpstreamError


class Listener(Protocol):
    """Told of everything in the order in which it happens; must not block."""

    def sent(self, call: UpstreamRequest) -> None:
        """A request goes to the upstream."""
        ...

    def received(self, data: bytes) -> None:
        """One network read of the reply."""
        ...

    def cut(self) -> None:
        """The reply broke off."""
        ...

    def stopped(self) -> None:
        """The gateway reads no further: the reply is whole, or it wants no more of it."""
        ...


class RecordingTransport:
    """`inner`, with every call and every batch told to `listener` while there is one."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.listener: Listener | None = None

    async def open(self, call: UpstreamRequest, watch: StreamTimers) -> UpstreamResponse:
        """Send the call."""
        listener = self.listener
        if listener is None:
            return await self._inner.open(call, watch)
        listener.sent(call)
        return _RecordedResponse(await self._inner.open(call, watch), listener)

    async def close(self) -> None:
        """Close all connections."""
        await self._inner.close()


class _RecordedResponse:
    """An answer that is told on while it is read."""

    def __init__(self, inner: UpstreamResponse, listener: Listener) -> None:
        self._inner = inner
        self._listener = listener
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers

    async def read(self, limit: int) -> bytes:
        """The whole body."""
        body = await self._inner.read(limit)
        self._listener.received(body)
        return body

    async def close(self) -> None:
        """Give the connection back, or cut it."""
        await self._inner.close()

    async def batches(self) -> AsyncGenerator[bytes, None]:
        """The body, one network read at a time."""
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
