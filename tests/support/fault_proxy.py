"""A TCP proxy that does to the bytes between a client and a server what bad networks do, when it is reported to.

    async with FaultProxy(server.port, to_client=Fault(drip=1, cut=200)) as proxy:
        ...  # 127.0.0.1:proxy.port

Nothing in it is a matter of time: faults come after a number of bytes, go on by an event, or are commands.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Self

from .waiting import turns
from .wire_server import LINGER_0

_READ = 2**16


class Ending(Enum):
    """The end of a connection: both sides finished, or FIN or RST to both at once."""

    DONE = auto()
    CUT = auto()
    RESET = auto()


@dataclass(slots=True)
class Fault:
    """The fault of one direction. `drip` is the size of a piece; the others state after how many bytes it happens.

    `hold` lets nothing more through until `go` is set (`held` states that it is so far); `cut` ends the connection by
    FIN, `reset` by RST, `half_close` ends this direction only and swallows the rest.
    """

    drip: int | None = None
    hold: int | None = None
    cut: int | None = None
    reset: int | None = None
    half_close: int | None = None
    go: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def room(self, passed: int) -> int:
        """Return how many bytes may pass before something is to be done."""
        stops = (self.cut, self.reset, self.half_close, None if self.go.is_set() else self.hold)
        room = min((stop - passed for stop in stops if stop is not None), default=_READ)
        return min(room, self.drip or _READ)


class _Link:
    """One connection through the proxy. `passed` counts the bytes to the client and to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, to_client: Fault, to_server: Fault) -> None:
        self.passed = {"client": 0, "server": 0}
        self._client, self._server = client, server
        self._faults = {"client": to_client, "server": to_server}
        self._ordered: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, how: Ending) -> None:
        """End the connection now."""
        if not self._ordered.done():
            self._ordered.set_result(how)

    def half_close(self, towards: str) -> None:
        """FIN towards one side, which goes on sending."""
        with suppress(OSError):
            (self._client if towards == "client" else self._server).shutdown(socket.SHUT_WR)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        flows = {
            loop.create_task(self._flow(self._server, self._client, "client")),
            loop.create_task(self._flow(self._client, self._server, "server")),
        }
        how, waiting = Ending.DONE, {*flows, self._ordered}
        try:
            while flows & waiting and how is Ending.DONE:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                how = next((task.result() for task in done if task.result() is not Ending.DONE), how)
        finally:
            for flow in flows:
                flow.cancel()
            await asyncio.gather(*flows, return_exceptions=True)
            self._ordered.cancel()
            for end in (self._client, self._server):
                _finish(end, how)

    async def _flow(self, source: socket.socket, target: socket.socket, towards: str) -> Ending:
        loop, fault = asyncio.get_running_loop(), self._faults[towards]
        data = b""
        try:
            while True:
                passed = self.passed[towards]
                if fault.cut == passed:
                    return Ending.CUT
                if fault.reset == passed:
                    return Ending.RESET
                if fault.half_close == passed:
                    self.half_close(towards)
                    while await loop.sock_recv(source, _READ):
                        pass
                    return Ending.DONE
                if fault.hold == passed and not fault.go.is_set():
                    fault.held.set()
                    await fault.go.wait()
                data = data or await loop.sock_recv(source, _READ)
                if not data:
                    self.half_close(towards)
                    return Ending.DONE
                piece, data = data[: (room := fault.room(passed))], data[room:]
                await loop.sock_sendall(target, piece)
                self.passed[towards] += len(piece)
                await turns()
        except ConnectionError:
            return Ending.RESET


def _finish(end: socket.socket, how: Ending) -> None:
    """Close a socket: unread bytes would make a FIN an RST, so they are read first."""
    with suppress(OSError), end:
        if how is Ending.RESET:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
            return
        end.shutdown(socket.SHUT_WR)
        for _ in range(64):
            if not end.recv(_READ):
                break


class FaultProxy:
    """An async context manager. `to_client` and `to_server` make the faults of each connection, or are those of all.

    While `accepting` is cleared new connections hang as in a full backlog; `refuse()` closes the port, `listen()` opens
    it again.
    """

    def __init__(
        self,
        target: int,
        *,
        to_client: Fault | Callable[[], Fault] = Fault,
        to_server: Fault | Callable[[], Fault] = Fault,
    ) -> None:
        self.port = 0
        self.connections = 0
        self.links: list[_Link] = []
        self.accepting = asyncio.Event()
        self.accepting.set()
        self._target = target
        self._to_client, self._to_server = to_client, to_server
        self._listener: socket.socket | None = None
        self._accepter: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of an endpoint behind the proxy."""
        return f"http://127.0.0.1:{self.port}/v1/x"

    def end(self, how: Ending) -> None:
        """End all connections."""
        for link in self.links:
            link.end(how)

    async def listen(self) -> None:
        """Open the port, the same one as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._accepter = asyncio.get_running_loop().create_task(self._accept(listener))

    async def refuse(self) -> None:
        """Close the port: who connects is refused. Open connections go on."""
        if self._accepter is not None:
            self._accepter.cancel()
            await asyncio.gather(self._accepter, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            self.connections += 1
            task = loop.create_task(self._serve(client))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            server.setblocking(False)
            await self.accepting.wait()
            await asyncio.get_running_loop().sock_connect(server, ("127.0.0.1", self._target))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            to_client, to_server = (
                fault if isinstance(fault, Fault) else fault() for fault in (self._to_client, self._to_server)
            )
            link = _Link(client, server, to_client, to_server)
            self.links.append(link)
            await link.run()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        running = list(self._running)
        for task in running:
            task.cancel()
        failures = [x for x in await asyncio.gather(*running, return_exceptions=True) if isinstance(x, Exception)]
        if failures and error is None:
            raise failures[0]
