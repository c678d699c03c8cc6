"""The timeouts of an exchange and the options of a connection pool."""

from __future__ import annotations

from dataclasses import dataclass, field

KIB = 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of one exchange, in seconds.

    `connect`, `first_byte`, `idle` and `tool_stall` limit the upstream, `write` and `body` the client. `heartbeat` is
    an interval. `head` and `keep_alive` are for the connections of a server such as `dragoman serve`.
    """

    connect: float = field(default=10.0, metadata={"doc": "opening a connection to the upstream"})
    first_byte: float = field(default=300.0, metadata={"doc": "from the request sent to the reply's first event"})
    idle: float = field(default=120.0, metadata={"doc": "between two reads of a reply"})
    tool_stall: float = field(default=120.0, metadata={"doc": "without progress of a tool call that has begun"})
    write: float = field(default=60.0, metadata={"doc": "a write to a client that does not read"})
    heartbeat: float = field(default=15.0, metadata={"doc": "without data to the client before a ping is sent"})
    early_reply: float = field(
        default=0.0,
        metadata={
            "doc": "wait for a stream's first event before the reply begins without it, so that pings can go out; its "
            "errors then come in the stream, with status 200; 0 = never"
        },
    )
    body: float = field(
        default=60.0, metadata={"doc": "for the next 64 KiB of a request's body, or its end, to arrive"}
    )
    head: float = field(
        default=30.0,
        metadata={
            "doc": "from a client's connection, or the first byte of a further request, to the end of the headers"
        },
    )
    keep_alive: float = field(
        default=660.0,
        metadata={
            "doc": "a client's connection without a request; should be longer than a balancer keeps its connections"
        },
    )


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options of a transport's connection pools: counts, seconds and bytes, each for one upstream."""

    limit: int = field(
        default=0,
        metadata={"doc": "connections open at once; a request waits timeouts.connect for one; 0 = no limit"},
    )
    idle: int = field(default=512, metadata={"doc": "connections kept open for later requests; 0 = none"})
    idle_seconds: float = field(
        default=15.0,
        metadata={"doc": "how long an idle connection is kept; should be shorter than the upstream keeps it"},
    )
    dns_seconds: float = field(default=30.0, metadata={"doc": "how long a host's addresses are remembered"})
    head: int = field(default=64 * KIB, metadata={"doc": "bytes of a reply's status line and headers"})
    unread: int = field(
        default=256 * KIB,
        metadata={"doc": "bytes of a reply waiting for a slow client before the upstream is paused"},
    )
