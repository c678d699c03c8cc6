"""Clients of a load: steady ones that check what they get, and ones that stop reading, read slowly or leave."""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from dragoman_bench.delays import Delays
from dragoman_bench.load import Load, get_json
from dragoman_bench.receiver import Receiver, Tally
from dragoman_bench.wire import NUMBERS, Script
from dragoman_proof.load.rig import CLIENT, STEADY, WITHIN, Stage, settled

BLAST = Script(9999, 0, 2000, 16)
"""The stream of a client that stops or is slow: 20 MB, sent as fast as it is read."""
_SLOW_SECONDS = 0.25
_FULL, _LOOK = 2.0, 0.1
"""Seconds in which a system that has room receives some bytes, and between two looks."""
_AT_ONCE = 64
"""Connections that are opened at once."""


class Unread:
    """Clients that send a request, and read nothing of its reply but what `read` takes."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._ends = select.poll()
        self.received = 0

    async def open(self, stage: Stage, count: int) -> None:
        """Connect `count` clients and send their requests. Raises OSError and TimeoutError."""
        plan, loop = stage.plan(BLAST), asyncio.get_running_loop()
        request, address = plan.request(), plan.address
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            self._sockets.append(sock)
            async with asyncio.timeout(WITHIN):
                await loop.sock_connect(sock, address)
                await loop.sock_sendall(sock, request)
            self._ends.register(sock, 0)  # errors and hang-ups only

    def ended(self) -> int:
        """Return how many connections the gateway has reset so far."""
        return len(self._ends.poll(0))

    async def full(self) -> float:
        """Wait until the clients' systems have received nothing for a while. Returns when they last did (monotonic)."""
        received, since = -1, time.monotonic()
        deadline = since + WITHIN
        while time.monotonic() - since < _FULL and time.monotonic() < deadline:
            if (now := self._unread()) != received:
                received, since = now, time.monotonic()
            await asyncio.sleep(_LOOK)
        return since

    def _unread(self) -> int:
        sizes = (fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(4)) for sock in self._sockets)
        return sum(int.from_bytes(size, sys.byteorder) for size in sizes)

    def read(self, size: int) -> None:
        """Read at most `size` bytes of each."""
        for sock in self._sockets:
            with suppress(OSError):
                self.received += len(sock.recv(size))

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()


class Clients:
    """Connections that check what they get: one `tally` for all, `errors` included."""

    def __init__(self, stage: Stage, script: Script) -> None:
        self.load = Load(stage.plan(script))
        self.receivers: list[Receiver] = []
        self.ended = 0

    @property
    def tally(self) -> Tally:
        """The counts of all streams."""
        return self.load.tally

    async def open(self, count: int, *, stamped: bool = False, at_once: int = _AT_ONCE) -> None:
        """Open `count` streams, and wait until each has its first delta or has ended."""
        connect = self.load.connect_stamped if stamped else self.load.connect
        await self._open(count, lambda: connect(self._receiver), at_once)

    async def _open(
        self, count: int, connect: Callable[[], Coroutine[Any, Any, Receiver | None]], at_once: int
    ) -> None:
        gate = asyncio.Semaphore(at_once)

        async def one() -> None:
            async with gate:
                receiver = await connect()
                if receiver is None:
                    return
                begun = asyncio.Event()
                receiver.started = lambda _: begun.set()
                self.receivers.append(receiver)
                receiver.send(self.load.request, time.monotonic_ns())
                async with asyncio.timeout(WITHIN):
                    while not begun.is_set() and receiver.active:
                        await _any(begun)

        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(one())

    def leave(self) -> dict[int, int]:
        """Disconnect all. Returns the times (monotonic ns), by the number of the stream modulo 10,000."""
        left: dict[int, int] = {}
        for receiver in self.receivers:
            if receiver.active:
                left[stream_number(receiver)] = time.monotonic_ns()
                receiver.cut()
        self.receivers.clear()
        return left

    def cut(self) -> None:
        """Disconnect those that are still open."""
        for receiver in self.receivers:
            receiver.cut()
        self.receivers.clear()

    async def complete(self, stage: Stage, upstream: str) -> None:
        """Let the upstream end the paced streams, and wait until all have ended."""
        await get_json(stage.upstreams[upstream].url, "/bench/finish")
        await settled(lambda: self.open_streams)
        self.cut()

    @property
    def open_streams(self) -> int:
        """The number of streams that have not ended."""
        return sum(receiver.active for receiver in self.receivers)

    def _receiver(self) -> Receiver:
        return Receiver(CLIENT, self.tally, self._done)

    def _done(self, receiver: Receiver, error: str | None) -> None:
        self.ended += 1
        if receiver.transport is not None:
            receiver.transport.abort()

    @contextmanager
    def measured(self) -> Iterator[Delays]:
        """Yield the delays of the deltas that arrive meanwhile."""
        self.tally.delay = delays = Delays()
        self.tally.measuring = True
        try:
            yield delays
        finally:
            self.tally.measuring = False


def stream_number(receiver: Receiver) -> int:
    """Return the number of a stream, as its upstream counts them, modulo 10,000."""
    return receiver._expected // NUMBERS


@asynccontextmanager
async def steady(stage: Stage, count: int) -> AsyncIterator[Clients]:
    """Open steady streams whose data has the kernel's times. They are completed at the end."""
    clients = Clients(stage, STEADY)
    await clients.open(count, stamped=True)
    try:
        yield clients
        await clients.complete(stage, "steady")
    finally:
        clients.cut()


@asynccontextmanager
async def reading(clients: Unread, bytes_per_s: int) -> AsyncIterator[None]:
    """Read a little of each client's reply from time to time."""

    async def read() -> None:
        while True:
            clients.read(round(bytes_per_s * _SLOW_SECONDS))
            await asyncio.sleep(_SLOW_SECONDS)

    task = asyncio.create_task(read())
    try:
        yield
    finally:
        task.cancel()


async def short_requests(stage: Stage, count: int) -> int:
    """Send `count` requests one after another, each over a connection of its own. Returns how many were answered."""
    clients = Clients(stage, Script(2, 0, 32, joined=True))
    for _ in range(count):
        await clients.open(1)
        await settled(lambda: clients.open_streams)
    return clients.tally.streams


async def _any(event: asyncio.Event) -> None:
    """Wait for an event, for a step at most."""
    try:
        async with asyncio.timeout(0.5):
            await event.wait()
    except TimeoutError:
        return
