"""The interface of a transport: it sends a request to an upstream and returns a response whose body comes in batches.

A batch is one network read. Timeouts are named (`Timeouts`) and run in one `StreamTimers` per request: a timer per read
would cost more than the read.

Two transports implement it and pass the same tests: `Http11Transport` on plain sockets, which is the default, and
`AiohttpTransport` for egress proxies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts


@dataclass(slots=True)
class UpstreamRequest:
    """One request to an upstream.

    `headers` are all headers but those of the connection itself. With `stream` the response is requested uncompressed.
    `method` is `POST`, or `GET` with an empty `body`.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    stream: bool
    timeouts: Timeouts
    method: str = "POST"


@dataclass(slots=True)
class Upload:
    """A request's body that is sent while it arrives. `length` is its length in bytes, None if that is not known yet.

    An exception of `pieces` cuts the request, so that the upstream does not act on it, and is raised by `open_upload`.
    """

    pieces: AsyncIterable[bytes] = field(repr=False)
    length: int | None


class CloseOnExit:
    """Closes an object at the end of its `async with`. A base class of transports and responses."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Free what the object holds."""
        raise NotImplementedError


class UpstreamResponse(Protocol):
    """A response whose head was received. `headers` may be replaced by an empty mapping once they were read, so that an
    open stream does not keep them."""

    status: int
    headers: Mapping[str, str]

    async def read(self, limit: int) -> bytes:
        """Return the complete body. Raises LimitExceeded above `limit` bytes, StreamTruncated, or a timer's error."""
        ...

    def batches(self) -> AsyncGenerator[bytes, None]:
        """Yield the body, one network read at a time.

        Raises StreamTruncated when the connection breaks, or a timer's error.
        """
        ...

    async def close(self) -> None:
        """Keep the connection if the body has ended; else cut it, which cancels the upstream's work."""
        ...


class PushedResponse(UpstreamResponse, Protocol):
    """A response that can resume its reader itself, so that a network read costs no future and no task switch."""

    def on_arrival(self, resume: Callable[[], None] | None, /) -> None:
        """Call `resume` for each network read that has body bytes or ends the body; None: use futures again.

        While `resume` is set, `batches` waits by a bare `yield None` of its awaitable. Each read calls `resume()` once,
        synchronously, after all of the read was parsed. `resume()` must send None to the coroutine that awaits
        `batches`; it may close the response. While `batches` waits, only that caller may set it.
        """
        ...


class Transport(Protocol):
    """Sends requests to upstreams."""

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and wait for the response's head. `timers` can end the request from the start.

        Raises UpstreamUnreachable, UpstreamTimeout, or the error by which the timers end the request.
        """
        ...

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request with the body `upload` in place of its own, and wait for the response's head.

        A response that arrives before the end of the body ends the sending. Raises as `open` does.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
