"""The upstream side: the interface of a transport.

A transport opens a call and gives an answer whose body comes in batches, one network read each. Timeouts are named and
watched by one timer per call (see `watch`), not by one timer per read, which would cost more than the read.

Two transports implement it and pass the same tests: `raw` on plain sockets, which is the usual one, and
`aiohttp_client` for egress proxies.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dragoman.aio.stream_timers import Watch

KIB = 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. `write` bounds one write to a client that does not read, `body` the wait for one that does not send;
    `heartbeat` is the longest silence it sees. `head` and `keep_alive` are for the connections of `dragoman serve`."""

    connect: float = field(default=10.0, metadata={"doc": "opening a connection to the upstream"})
    first_byte: float = field(default=300.0, metadata={"doc": "from the request sent to the reply's first event"})
    idle: float = field(default=120.0, metadata={"doc": "between two reads of a reply"})
    tool_stall: float = field(default=120.0, metadata={"doc": "a tool call announced, and no more of it"})
    write: float = field(default=60.0, metadata={"doc": "one write to a client that does not read"})
    heartbeat: float = field(default=15.0, metadata={"doc": "silence towards the client before a ping is sent"})
    early_reply: float = field(
        default=0.0,
        metadata={
            "doc": "wait for a stream's first event before the reply begins without it, so that pings can go out; its "
            "errors then come in the stream, with status 200; 0 = never"
        },
    )
    body: float = field(default=60.0, metadata={"doc": "the next 64 KiB of a request's body, or its end"})
    head: float = field(
        default=30.0,
        metadata={
            "doc": "from a client's connection, or the first byte of a further request, to the end of the headers"
        },
    )
    keep_alive: float = field(
        default=660.0,
        metadata={"doc": "a client's connection without a request; be above what a balancer keeps its own for"},
    )


@dataclass(frozen=True, slots=True)
class Connections:
    """How a transport keeps its connections. Counts, seconds and bytes; all are of one upstream."""

    limit: int = field(
        default=0,
        metadata={"doc": "connections open at once; a request waits timeouts.connect for one; 0 = no limit"},
    )
    idle: int = field(default=512, metadata={"doc": "connections kept open for later requests; 0 = none"})
    idle_seconds: float = field(default=15.0, metadata={"doc": "how long one is kept; be below the upstream's own"})
    dns_seconds: float = field(default=30.0, metadata={"doc": "how long a host's addresses are remembered"})
    head: int = field(default=64 * KIB, metadata={"doc": "bytes of a reply's status line and headers"})
    unread: int = field(
        default=256 * KIB,
        metadata={"doc": "bytes of a reply waiting for a slow client before the upstream is paused"},
    )


@dataclass(slots=True)
class Call:
    """One request to an upstream. `headers` are complete; `stream` asks for an uncompressed event stream.

    `method` is `POST`, or `GET` with an empty `body`.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    stream: bool
    timeouts: Timeouts
    method: str = "POST"


class Answer(Protocol):
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


class PushedAnswer(Answer, Protocol):
    """An answer that can step its reader itself, so that a network read costs no future and no task switch."""

    def on_arrival(self, step: Callable[[], None] | None, /) -> None:
        """While `step` is set, `batches` waits by a bare `yield None` of its awaitable, and each network read that has
        something for it calls `step()` once, synchronously, after the whole read was parsed. `step()` must send None
        into whoever awaits `batches`; it may close the answer.

        None: futures again. Only who steps may set it while `batches` waits.
        """
        ...


class Upstream(Protocol):
    """A transport."""

    async def open(self, call: Call, watch: Watch) -> Answer:
        """Send the call and read the head of the answer, attached to `watch` from the start.

        Raises UpstreamUnreachable, UpstreamTimeout, or what the watch fails it with.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
