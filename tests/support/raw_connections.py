"""Upstream connections on a fake transport: writes are recorded, and the test feeds what the server sends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.connector import Connector
from dragoman.aio.upstream.http11.pool import Pool
from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.aio.upstream.http11.response import Http11Response
from dragoman.errors import UpstreamUnreachable

ORIGIN = Origin(False, "upstream.test", 80)
HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def chunk(data: bytes) -> bytes:
    """One chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Wire:
    """The transport. `far` is the other end of a real pair of sockets, which a pool looks at before it sends."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.written: list[bytes] = []
        self.unsent = 0
        self.paused = self.closed = False
        self.connection: Connection | None = None

    def get_extra_info(self, name: str) -> Any:
        """Only the socket."""
        return self.near if name == "socket" else None

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written.append(data)

    def writelines(self, pieces: tuple[bytes, ...]) -> None:
        """Keep them."""
        self.written.extend(pieces)

    def get_write_buffer_size(self) -> int:
        """The number that a test has set."""
        return self.unsent

    def is_closing(self) -> bool:
        """Return whether it was aborted."""
        return self.closed

    def pause_reading(self) -> None:
        """Read no more."""
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        """Read again."""
        assert self.paused
        assert not self.closed
        self.paused = False

    def abort(self) -> None:
        """Close; the connection is notified a turn later, as by a real one."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.lose)

    def lose(self, error: Exception | None = None) -> None:
        """The end of the connection."""
        self.closed = True
        self.near.close()
        self.far.close()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.connection_lost(error)


class Dialled:
    """A dialer whose connections are wires. `refused` are dials that fail; `held` keeps the others from coming."""

    def __init__(self) -> None:
        self.loop: Any = asyncio.get_running_loop()
        self.wires: list[Wire] = []
        self.refused = 0
        self.held: asyncio.Event | None = None

    async def connect(self, origin: Origin, connection: Connection) -> None:
        """As `Connector.dial`."""
        assert origin == ORIGIN
        if self.held is not None:
            await self.held.wait()
        if self.refused:
            self.refused -= 1
            raise UpstreamUnreachable("cannot connect to the upstream: refused by the test")
        wire = Wire()
        wire.connection = connection
        self.wires.append(wire)
        connection.connection_made(cast("asyncio.BaseTransport", wire))


@dataclass(slots=True)
class Bench:
    """A pool of wires."""

    pool: Pool
    dialled: Dialled
    watches: list[StreamTimers] = field(default_factory=list)

    @property
    def wires(self) -> list[Wire]:
        """All that were dialled."""
        return self.dialled.wires

    def watch(self) -> StreamTimers:
        """One that is stopped at the end."""
        self.watches.append(StreamTimers(Timeouts()))
        return self.watches[-1]

    async def connect(self) -> Connection:
        """As a transport gets one."""
        return self.pool.acquire_idle() or await self.pool.acquire(5, self.watch())

    async def answer(self, *reply: bytes) -> tuple[Http11Response, Connection]:
        """The answer of a request to which these bytes came back, one read each."""
        connection = await self.connect()
        watch = self.watch()
        watch.attach(connection.fail)
        connection.send(b"head", b"body")
        for data in reply:
            connection.data_received(data)
        await connection.wait_for_head()
        return Http11Response(connection, watch), connection


@asynccontextmanager
async def bench(**connections: Any) -> AsyncIterator[Bench]:
    """A pool with these settings, closed at the end."""
    dialled = Dialled()
    made = Bench(Pool(ORIGIN, cast("Connector", dialled), PoolOptions(**connections)), dialled)
    try:
        yield made
    finally:
        for watch in made.watches:
            watch.stop()
        await made.pool.close()
        for wire in made.wires:
            wire.near.close()
            wire.far.close()
