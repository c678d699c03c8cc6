"""The timeouts of an exchange and the options of a connection pool."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.limits import documented
from dragoman.short_repr import changed_fields

KIB = 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of one exchange, in seconds.

    `connect`, `first_byte`, `idle` and `tool_stall` limit the upstream, `write` and `body` the client. `heartbeat` is
    an interval. `head` and `keep_alive` are for the connections of a server such as `dragoman serve`.
    """

    __repr__ = changed_fields

    connect: float = documented(10.0, "opening a connection to the upstream")
    first_byte: float = documented(300.0, "from the request sent to the reply's first event")
    idle: float = documented(120.0, "between two reads of a reply")
    tool_stall: float = documented(120.0, "without progress of a tool call that has begun")
    write: float = documented(60.0, "a write to a client that does not read")
    heartbeat: float = documented(15.0, "without data to the client before a ping is sent")
    early_reply: float = documented(
        0.0,
        "wait for a stream's first event before the reply begins without it, so that pings can go out; its "
        "errors then come in the stream, with status 200; 0 = never",
    )
    body: float = documented(60.0, "for the next 64 KiB of a request's body, or its end, to arrive")
    head: float = documented(
        30.0, "from a client's connection, or the first byte of a further request, to the end of the headers"
    )
    keep_alive: float = documented(
        660.0, "a client's connection without a request; should be longer than a balancer keeps its connections"
    )


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options of a transport's connection pools: counts, seconds and bytes, each for one upstream."""

    __repr__ = changed_fields

    limit: int = documented(0, "connections open at once; a request waits timeouts.connect for one; 0 = no limit")
    idle: int = documented(512, "connections kept open for later requests; 0 = none")
    idle_seconds: float = documented(
        15.0, "how long an idle connection is kept; should be shorter than the upstream keeps it"
    )
    dns_seconds: float = documented(30.0, "how long a host's addresses are remembered")
    head: int = documented(64 * KIB, "bytes of a reply's status line and headers")
    unread: int = documented(256 * KIB, "bytes of a reply waiting for a slow client before the upstream is paused")
