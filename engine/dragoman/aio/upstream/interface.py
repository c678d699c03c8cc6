"""The upstream side: the interface of a transport.

A transport opens a call and gives an answer whose body comes in batches, one network read each. Timeouts are named and
watched by one timer per call (see `watch`), not by one timer per read, which would cost more than the read.

Two transports implement it and pass the same tests: `raw` on plain sockets, which is the usual one, and
`aiohttp_client` for egress proxies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts


@dataclass(slots=True)
class UpstreamRequest:
    """One request to an upstream. `headers` are complete; `stream` asks for an uncompressed event stream.

    `method` is `POST`, or `GET` with an empty `body`.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    stream: bool
    timeouts: Timeouts
    method: str = "POST"


class UpstreamResponse(Protocol):
    """An upstream's answer, its head read. Who has what it wants of `headers` may put an empty mapping in their place:
    an open stream then does not keep them."""

    status: int
    headers: Mapping[str, str]

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises LimitExceeded, UpstreamUnreachable."""
        ...

    def batches(self) -> AsyncGenerator[bytes, None]:
        """The body, one network read at a time. Raises StreamTruncated when the connection breaks."""
        ...

    async def close(self) -> None:
        """Give the connection back if the body is at its end, else cut it, which cancels the upstream."""
        ...


class PushedResponse(UpstreamResponse, Protocol):
    """An answer that can step its reader itself, so that a network read costs no future and no task switch."""

    def on_arrival(self, step: Callable[[], None] | None, /) -> None:
        """While `step` is set, `batches` waits by a bare `yield None` of its awaitable, and each network read that has
        something for it calls `step()` once, synchronously, after the whole read was parsed. `step()` must send None
        into whoever awaits `batches`; it may close the answer.

        None: futures again. Only who steps may set it while `batches` waits.
        """
        ...


class Transport(Protocol):
    """A transport."""

    async def open(self, call: UpstreamRequest, watch: StreamTimers) -> UpstreamResponse:
        """Send the call and read the head of the answer, attached to `watch` from the start.

        Raises UpstreamUnreachable, UpstreamTimeout, or what the watch fails it with.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
