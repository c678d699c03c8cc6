"""Limits on a server's connections: their number, in total and per client address, and the time without a request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from aiohttp.http import HttpProcessingError

from dragoman.aio.downstream.lingering_close import LingeringClose
from dragoman.short_repr import changed_fields

GRACE = 1.0
"""Seconds that a new connection has for its first request before it may be closed for a newer connection."""


def margin(limit: int) -> int:
    """Return the number of connections above a limit that get an error response; further ones are dropped."""
    return min(32, max(4, limit // 4))


class UnusedConnection(Protocol):
    """A new connection that has not sent a request."""

    def make_room(self, now: float) -> bool:
        """Close the connection if it is older than `GRACE`. Return whether it was closed."""
        ...


@dataclass(frozen=True, slots=True)
class PlainResponse:
    """A response that is made without a handler."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Return the complete response as sent. The connection is closed after it."""
        reason = HTTPStatus(self.status).phrase
        headers = {**self.headers, "content-length": str(len(self.body)), "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} {reason}\r\n{lines}\r\n".encode("latin-1") + self.body


class HeadTimeout(HttpProcessingError):
    """A request's head was not complete in time."""

    code = 408


class TooManyConnections(HttpProcessingError):
    """A connection exceeds a limit. `limit` is the setting's name."""

    code = 503

    def __init__(self, limit: str) -> None:
        super().__init__(message="too many connections")
        self.limit = limit


def plain_response(error: HttpProcessingError, _: bytes) -> PlainResponse:
    """Return the error's text as a response."""
    return PlainResponse(error.code, {"content-type": "text/plain; charset=utf-8"}, error.message.encode())


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server.

    `head` and `keep_alive` are seconds: from a connection's or a request's beginning until its head is complete, and
    between two requests. `write` is the seconds within which a client must take some of a response that waits to be
    sent; streams are timed by `StreamTimers` as well. `connections` and `per_address` are counts, 0 = no limit.
    `refuse` makes the response to a request that no handler gets, from the error and the first bytes of the request. It
    is called once for each refused connection, though some are dropped without the response.
    """

    __repr__ = changed_fields

    head: float = 30.0
    keep_alive: float = 660.0
    write: float = 60.0
    connections: int = 0
    per_address: int = 0
    refuse: Callable[[HttpProcessingError, bytes], PlainResponse] = field(default=plain_response)


class OpenConnections:
    """Counts the open connections of a server. `waiting` are those that have not sent a request, oldest first;
    `ending` are those that are being closed after an error response."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.waiting: dict[UnusedConnection, None] = {}
        self.ending: set[LingeringClose] = set()
        self._addresses: dict[object, str] = {}
        self._by_address: dict[str, int] = {}
        self.count = 0

    def __repr__(self) -> str:
        return f"<OpenConnections {self.count} waiting={len(self.waiting)} ending={len(self.ending)}>"

    def add(self, connection: object, transport: asyncio.BaseTransport) -> TooManyConnections | None:
        """Count a connection until `remove`. Return the error if it exceeds a limit.

        At the limit, the oldest connection without a request is closed: idle clients must not keep others out.
        """
        self.count += 1
        limits, from_address = self.limits, 0
        if limits.per_address:
            peer = transport.get_extra_info("peername")
            if isinstance(peer, tuple):
                address = self._addresses[connection] = peer[0]
                from_address = self._by_address[address] = self._by_address.get(address, 0) + 1
        if limits.connections and self.count > limits.connections and not self._make_room():
            return TooManyConnections("max_connections")
        if from_address > limits.per_address:
            return TooManyConnections("max_connections_per_address")
        return None

    def _make_room(self) -> bool:
        oldest = next(iter(self.waiting), None)
        return oldest is not None and oldest.make_room(asyncio.get_running_loop().time())

    def refuse(self, connection: object, error: TooManyConnections, transport: asyncio.Transport) -> None:
        """Answer the first bytes of a connection above a limit with `error`, or drop it if it is far above."""
        if self._is_above_margin(connection):
            self.limits.refuse(error, b"")  # it counts the refusals
            transport.abort()
        else:
            self.end(transport, error, None)

    def end(self, transport: asyncio.Transport, error: HttpProcessingError, request_start: bytes | None) -> None:
        """Answer a request with `error`, then close. `request_start` are its first bytes; None = the next received."""
        LingeringClose(transport, lambda start: self.limits.refuse(error, start).encode(), request_start, self.ending)

    def linger(self, transport: asyncio.Transport) -> None:
        """Close a connection to whose client the reason was sent, and which may still send."""
        LingeringClose(transport, lambda _: b"", b"", self.ending)

    def close(self) -> None:
        """Drop the connections that are being closed."""
        for connection in tuple(self.ending):
            connection.abort()

    def _is_above_margin(self, connection: object) -> bool:
        limits = self.limits
        if limits.connections and self.count > limits.connections + margin(limits.connections):
            return True
        address = self._addresses.get(connection)
        return address is not None and self._by_address[address] > limits.per_address + margin(limits.per_address)

    def remove(self, connection: object) -> None:
        """Stop counting a connection that has ended."""
        self.count -= 1
        address = self._addresses.pop(connection, None)
        if address is not None:
            remaining = self._by_address[address] - 1
            if remaining:
                self._by_address[address] = remaining
            else:
                del self._by_address[address]
