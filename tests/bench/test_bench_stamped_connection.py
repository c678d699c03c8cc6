"""The client connection whose data has the kernel's time."""

from __future__ import annotations

import asyncio
import socket
import sys
import time

import pytest

from dragoman_bench.receiver import Receiver, Tally
from dragoman_bench.stamped_connection import StampedConnection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the times are those of Linux")


class Noted(Receiver):
    """Keeps what it receives, with the times."""

    def __init__(self) -> None:
        super().__init__("chat", Tally(), lambda *_: None)
        self.arrived: list[tuple[bytes, int]] = []
        self.came, self.lost = asyncio.Event(), asyncio.Event()

    def receive(self, data: bytes, now: int) -> None:
        """Keep it."""
        self.arrived.append((data, now))
        self.came.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Keep it."""
        self.lost.set()


async def test_the_time_is_that_of_the_arrival_and_not_that_of_the_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        sock.setblocking(False)
        server, _ = listener.accept()
        receiver = Noted()
        connection = StampedConnection(sock, receiver)
        with server:
            connection.write(b"request")
            assert server.recv(100) == b"request"
            # The kernel starts to take times a moment after the option was set; until then they are those of the read.
            async with asyncio.timeout(30):
                while not await _is_of_arrival(server, receiver):
                    pass
        await asyncio.wait_for(receiver.lost.wait(), 30)
        assert connection.is_closing()


async def _is_of_arrival(server: socket.socket, receiver: Noted) -> bool:
    """Send data that is read 5 ms later. Returns True if its time is that of the arrival."""
    receiver.came.clear()
    before = time.monotonic_ns()
    server.sendall(b"reply")
    after = time.monotonic_ns()
    while time.monotonic_ns() < after + 5_000_000:
        pass  # the process is busy
    await receiver.came.wait()
    data, arrived = receiver.arrived.pop()
    assert data == b"reply"
    return before - 1_000_000 < arrived < after + 1_000_000


async def test_an_aborted_connection_is_lost_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        sock.setblocking(False)
        server, _ = listener.accept()
        with server:
            receiver = Noted()
            connection = StampedConnection(sock, receiver)
            connection.abort()
            connection.abort()
            await asyncio.wait_for(receiver.lost.wait(), 30)
            assert server.recv(100) == b""
