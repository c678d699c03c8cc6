"""Observed requests: what observers are called with, and that the requests themselves do not change."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType

import pytest

from dragoman.aio import (
    CallObserver,
    ObservedTransport,
    StreamTimers,
    Timeouts,
    Upload,
    UpstreamRequest,
    UpstreamResponse,
)
from dragoman.errors import DragomanError, StreamTruncated, UpstreamUnreachable

CALL = UpstreamRequest("http://up", {}, b"{}", True, Timeouts())


class Source:
    """A response of two batches, which may end with an error."""

    status = 200
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, error: DragomanError | None = None) -> None:
        self._error = error

    async def batches(self) -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"
        if self._error is not None:
            raise self._error

    async def read(self, limit: int) -> bytes:
        if self._error is not None:
            raise self._error
        return b"onetwo"

    async def close(self) -> None:
        """Nothing is open."""


class Inner:
    """A transport that returns `response`, or raises it."""

    def __init__(self, response: Source | DragomanError) -> None:
        self.response = response
        self.uploads: list[bytes] = []
        self.closed = False

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        if isinstance(self.response, DragomanError):
            raise self.response
        return self.response

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        self.uploads = [piece async for piece in upload.pieces]
        return await self.open(request, timers)

    async def close(self) -> None:
        self.closed = True


class Calls(CallObserver):
    def __init__(self) -> None:
        self.rows: list[object] = []

    def uploaded(self, size: int) -> None:
        self.rows.append(size)

    def answered(self, response: UpstreamResponse) -> None:
        self.rows.append("answered")

    def received(self, data: bytes) -> None:
        self.rows.append(data.decode())

    def failed(self, error: DragomanError) -> None:
        self.rows.append(type(error))

    def stopped(self) -> None:
        self.rows.append("stopped")


async def opened(inner: Inner, observer: CallObserver | None) -> UpstreamResponse:
    with StreamTimers(Timeouts()) as timers:
        return await ObservedTransport(inner, lambda _: observer).open(CALL, timers)


@pytest.mark.parametrize(("reads", "rows"), [(1, ["one", "stopped"]), (3, ["one", "two"])])
async def test_each_batch_is_observed_and_that_the_reader_stops(reads: int, rows: list[str]) -> None:
    calls = Calls()
    batches = (await opened(Inner(Source()), calls)).batches()
    for _ in range(reads):
        await anext(batches, None)
    await batches.aclose()
    assert calls.rows == ["answered", *rows]


async def test_a_whole_body_is_observed_at_once() -> None:
    calls = Calls()
    assert await (await opened(Inner(Source()), calls)).read(99) == b"onetwo"
    assert calls.rows == ["answered", "onetwo"]


async def test_failures_are_observed_and_raised() -> None:
    calls = Calls()
    with pytest.raises(UpstreamUnreachable):
        await opened(Inner(UpstreamUnreachable("refused")), calls)
    response = await opened(Inner(Source(StreamTruncated("cut"))), calls)
    with pytest.raises(StreamTruncated):
        await response.read(99)
    with pytest.raises(StreamTruncated):
        async for _ in response.batches():
            pass
    cut = ["one", "two", StreamTruncated]
    assert calls.rows == [UpstreamUnreachable, "answered", StreamTruncated, *cut]


async def test_an_upload_is_sent_unchanged() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"a"
        yield b"bc"

    inner, calls = Inner(Source()), Calls()
    transport = ObservedTransport(inner, lambda _: calls)
    with StreamTimers(Timeouts()) as timers:
        await transport.open_upload(CALL, Upload(pieces(), 3), timers)
    assert inner.uploads == [b"a", b"bc"]
    assert calls.rows == [1, 2, "answered"]
    await transport.close()
    assert inner.closed


async def test_a_request_without_an_observer_gets_the_response_itself() -> None:
    inner = Inner(Source())
    assert await opened(inner, None) is inner.response
