"""The timeouts of an exchange and the options of a connection pool."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.short_repr import changed_fields

KIB = 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of one exchange, in seconds.

    `connect`, `first_byte`, `idle` and `tool_stall` limit the upstream, `write` and `body` the client. `heartbeat` is
    an interval. `head` and `keep_alive` are for the connections of a server such as `dragoman serve`.
    """

    __repr__ = changed_fields

    connect: float = 10.0
    """Opening a connection to the upstream."""
    first_byte: float = 300.0
    """From the request sent to the reply's first event."""
    idle: float = 120.0
    """Between two reads of a reply."""
    tool_stall: float = 120.0
    """Without progress of a tool call that has begun."""
    write: float = 60.0
    """A write to a client that does not read; ten times this if the client reads slowly."""
    heartbeat: float = 15.0
    """Without data to the client before a ping is sent."""
    early_reply: float = 0.0
    """Wait for a stream's first event before the reply begins without it, so that pings can go out; its errors then
    come in the stream, with status 200; 0 = never."""
    body: float = 60.0
    """For the next 64 KiB of a request's body, or its end, to arrive."""
    head: float = 30.0
    """From a client's connection, or the first byte of a further request, to the end of the headers."""
    keep_alive: float = 660.0
    """A client's connection without a request; should be longer than a balancer keeps its connections."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The options of a transport's connection pools: counts, seconds and bytes, each for one upstream."""

    __repr__ = changed_fields

    limit: int = 0
    """Connections open at once; a request waits timeouts.connect for one; 0 = no limit."""
    idle: int = 512
    """Connections kept open for later requests; 0 = none."""
    idle_seconds: float = 15.0
    """Seconds that an idle connection is kept; should be shorter than the upstream keeps it."""
    dns_seconds: float = 30.0
    """Seconds that a host's addresses are remembered."""
    head: int = 64 * KIB
    """Bytes of a reply's status line and headers."""
    unread: int = 256 * KIB
    """Bytes of a reply waiting for a slow client before the upstream is paused."""
