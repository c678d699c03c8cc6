"""Limits on a server's connections: how many there may be, and how long one may say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from aiohttp.http import HttpProcessingError

from dragoman.aio.downstream.lingering_close import LingeringClose

GRACE = 1.0
"""Seconds that a new connection has for its first request before it may have to make room for another one."""


def margin(limit: int) -> int:
    """How many connections beyond a limit get a reply; those beyond them are dropped without one."""
    return min(32, max(4, limit // 4))


class Waiting(Protocol):
    """A new connection whose first request has not come."""

    def make_room(self, now: float) -> bool:
        """Close the connection, if it has waited for `GRACE`. Returns whether it is closed."""
        ...


@dataclass(frozen=True, slots=True)
class PlainResponse:
    """A reply that no handler makes."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def encode(self) -> bytes:
        """All of it as sent. The connection ends with it."""
        reason = HTTPStatus(self.status).phrase
        headers = {**self.headers, "content-length": str(len(self.body)), "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {self.status} {reason}\r\n{lines}\r\n".encode("latin-1") + self.body


class HeadTimeout(HttpProcessingError):
    """A request's head did not end in time."""

    code = 408


class TooManyConnections(HttpProcessingError):
    """One connection more than a limit allows. `limit` is the setting's name."""

    code = 503

    def __init__(self, limit: str) -> None:
        super().__init__(message="too many connections")
        self.limit = limit


def plain_response(error: HttpProcessingError, _: bytes) -> PlainResponse:
    """The error's text."""
    return PlainResponse(error.code, {"content-type": "text/plain; charset=utf-8"}, error.message.encode())


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server. `head` and `keep_alive` are seconds: from a connection's or a request's beginning until its
    head is complete, and between two requests. `write` is the seconds in which a client must take some of a reply that
    waits to be sent; a `Watch` times the streams as well. `connections` and `per_address` are counts, 0 = no limit.
    `refuse` makes the reply to a request that no handler gets, from the error and the first bytes of the request. It is
    called once for each refused connection, though not each gets the reply."""

    head: float = 30.0
    keep_alive: float = 660.0
    write: float = 60.0
    connections: int = 0
    per_address: int = 0
    refuse: Callable[[HttpProcessingError, bytes], PlainResponse] = field(default=plain_response)


class OpenConnections:
    """The open connections of a server, counted. `waiting` are those whose first request has not come, oldest first;
    `ending` are those whose client was refused."""

    def __init__(self, bounds: ConnectionLimits) -> None:
        self.bounds = bounds
        self.waiting: dict[Waiting, None] = {}
        self.ending: set[LingeringClose] = set()
        self._addresses: dict[object, str] = {}
        self._by_address: dict[str, int] = {}
        self.count = 0

    def add(self, connection: object, transport: asyncio.BaseTransport) -> TooManyConnections | None:
        """Count a connection in; gives the error if it is one too many. It stays counted until `remove`.

        One that has sent no request makes room for it: silent clients must not keep the others out.
        """
        self.count += 1
        bounds, here = self.bounds, 0
        if bounds.per_address:
            peer = transport.get_extra_info("peername")
            if isinstance(peer, tuple):
                address = self._addresses[connection] = peer[0]
                here = self._by_address[address] = self._by_address.get(address, 0) + 1
        if bounds.connections and self.count > bounds.connections and not self._make_room():
            return TooManyConnections("max_connections")
        if here > bounds.per_address:
            return TooManyConnections("max_connections_per_address")
        return None

    def _make_room(self) -> bool:
        oldest = next(iter(self.waiting), None)
        return oldest is not None and oldest.make_room(asyncio.get_running_loop().time())

    def refuse(self, connection: object, excess: TooManyConnections, transport: asyncio.Transport) -> None:
        """Answer the first bytes of a connection that is one too many, or drop it if there are many too many."""
        if self._beyond_reply(connection):
            self.bounds.refuse(excess, b"")  # it counts them
            transport.abort()
        else:
            self.end(transport, excess, None)

    def end(self, transport: asyncio.Transport, error: HttpProcessingError, start: bytes | None) -> None:
        """Answer a request that begins with `start`, or with what comes next if it is None; then close."""
        LingeringClose(transport, lambda begun: self.bounds.refuse(error, begun).encode(), start, self.ending)

    def close(self) -> None:
        """Drop the clients that were refused."""
        for one in tuple(self.ending):
            one.abort()

    def _beyond_reply(self, connection: object) -> bool:
        bounds = self.bounds
        if bounds.connections and self.count > bounds.connections + margin(bounds.connections):
            return True
        address = self._addresses.get(connection)
        return address is not None and self._by_address[address] > bounds.per_address + margin(bounds.per_address)

    def remove(self, connection: object) -> None:
        """A connection that is counted has ended."""
        self.count -= 1
        address = self._addresses.pop(connection, None)
        if address is not None:
            left = self._by_address[address] - 1
            if left:
                self._by_address[address] = left
            else:
                del self._by_address[address]
