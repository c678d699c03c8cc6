"""A server below HTTP: each connection is a coroutine that chooses the bytes, their pieces, and the time.

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\\r\\ncontent-le")
        await peer.send(b"ngth: 2\\r\\n\\r\\nhi")

    async with WireServer(handler) as server:
        ...  # server.url, server.requests, server.peers

What came is kept byte for byte. A handler that returns closes its connection; one whose client left is ended quietly.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, cast

from .waiting import turns

LINGER_0 = struct.pack("ii", 1, 0)
"""SO_LINGER by which closing a socket sends RST."""


class Gone(Exception):
    """The client ended the connection."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came, its head with the empty line."""

    head: bytes
    body: bytes

    @property
    def lines(self) -> list[str]:
        """The request line and the header lines."""
        return self.head.decode("latin-1").split("\r\n")[:-2]

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name. Raises AssertionError if one comes twice."""
        pairs = [line.split(": ", 1) for line in self.lines[1:]]
        found = {name.lower(): value for name, value in pairs}
        assert len(found) == len(pairs), pairs
        return found


class Peer(asyncio.Protocol):
    """The server's end of one connection. `received` is every byte that came, `sent` the number that went."""

    def __init__(self, server: WireServer, handler: Handler) -> None:
        self.received = bytearray()
        self.sent = 0
        self.gone = asyncio.Event()
        """The client closed its side, or the connection is lost."""
        self.lost = asyncio.Event()
        self._server = server
        self._handler = handler
        self._taken = 0
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's transport."""
        assert self._transport is not None
        return self._transport

    @property
    def ports(self) -> tuple[int, int]:
        """The client's port and the server's."""
        return self.transport.get_extra_info("peername")[1], self.transport.get_extra_info("sockname")[1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._server.enter(self, asyncio.get_running_loop().create_task(self._serve()))

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    def eof_received(self) -> bool:
        self.gone.set()
        self._changed.set()
        return not isinstance(self.transport.get_extra_info("sslcontext"), ssl.SSLContext)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self.lost.set()
        self._changed.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def _serve(self) -> None:
        try:
            await self._handler(self)
        except Gone:
            pass
        finally:
            if not self.transport.is_closing():
                self.transport.close()

    async def request(self) -> Request:
        """The next request. Raises Gone if none comes."""
        head = await self.head()
        lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        request = Request(head, await self.exactly(int(lengths[0]) if lengths else 0))
        self._server.requests.append(request)
        return request

    async def head(self) -> bytes:
        """As far as the next empty line."""
        while (end := self.received.find(b"\r\n\r\n", self._taken)) < 0:
            await self._more()
        return await self.exactly(end + 4 - self._taken)

    async def exactly(self, size: int) -> bytes:
        """The next bytes, so many."""
        while len(self.received) < self._taken + size:
            await self._more()
        taken = bytes(self.received[self._taken : self._taken + size])
        self._taken += size
        return taken

    async def _more(self) -> None:
        if self.gone.is_set():
            raise Gone
        self._changed.clear()
        await self._changed.wait()

    async def send(self, data: bytes) -> None:
        """Send these bytes and let the client read them before anything else is sent."""
        await self._writable.wait()
        if self.transport.is_closing():
            raise Gone
        self.transport.write(data)
        self.sent += len(data)
        await turns()

    async def drip(self, data: bytes, size: int = 1) -> None:
        """Return the same in pieces, each a read of its own."""
        for at in range(0, len(data), size):
            await self.send(data[at : at + size])

    def close(self) -> None:
        """Close cleanly (FIN, with TLS close_notify first)."""
        self.transport.close()

    def cut(self) -> None:
        """End the TCP connection as it is: with TLS there is no close_notify."""
        self.transport.abort()

    def reset(self) -> None:
        """RST."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        self.transport.abort()

    def half_close(self) -> None:
        """FIN, and go on reading."""
        self.transport.write_eof()

    def shut_at_once(self) -> None:
        """FIN both ways now, before the event loop turns again."""
        with socket.socket(fileno=socket.dup(self.transport.get_extra_info("socket").fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)


Handler = Callable[[Peer], Awaitable[None]]


def replying(*pieces: bytes, then: Callable[[Peer], object] | None = None) -> Handler:
    """A handler that answers each request with these pieces, each a read of its own, and then does `then`."""

    async def handler(peer: Peer) -> None:
        while True:
            await peer.request()
            for piece in pieces:
                await peer.send(piece)
            if then is not None:
                then(peer)
                return

    return handler


async def silent(peer: Peer) -> None:
    """A handler that takes one request and is silent until the client goes."""
    await peer.request()
    await peer.gone.wait()


class WireServer:
    """An async context manager. The n-th connection gets the n-th handler, further ones the last.

    A handler's failure is raised at the end of the context.
    """

    def __init__(self, *handlers: Handler, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        assert handlers
        self.peers: list[Peer] = []
        self.requests: list[Request] = []
        self.port = 0
        self._handlers = handlers
        self._made = 0
        self._tls = tls
        self._host = host
        self._tasks: list[asyncio.Task[None]] = []
        self._entered = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The URL of an endpoint of this server."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/v1/x"

    def _peer(self) -> Peer:
        self._made += 1
        return Peer(self, self._handlers[min(self._made, len(self._handlers)) - 1])

    def enter(self, peer: Peer, task: asyncio.Task[None]) -> None:
        """A connection was made."""
        self.peers.append(peer)
        self._tasks.append(task)
        self._entered.set()

    async def peer(self, number: int) -> Peer:
        """The connection of this number (from 0), as soon as it is made."""
        while len(self.peers) <= number:
            self._entered.clear()
            await self._entered.wait()
        return self.peers[number]

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._peer, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for peer in self.peers:
            peer.transport.abort()
        for task in self._tasks:
            task.cancel()
        failures = [x for x in await asyncio.gather(*self._tasks, return_exceptions=True) if isinstance(x, Exception)]
        await self._server.wait_closed()
        if failures and error is None:
            raise failures[0]
