"""A client connection whose data has the time at which the kernel got it, not that at which this process read it.

Fast streams and their readers keep a small machine busy, and then the process of the load wakes up late: by half a
millisecond at the 99th percentile on two cores, whatever the gateway. A kernel's time has none of that in it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from typing import Final

from dragoman_bench.receiver import Receiver

AVAILABLE: Final = sys.platform == "linux"
_STAMPS: Final = getattr(socket, "SO_TIMESTAMPNS", 35)
"""The option of Linux; Python 3.11 has no name for it. A message of the same number has the time."""
_TIME: Final = struct.Struct("@qq")
_ROOM: Final = socket.CMSG_SPACE(_TIME.size)
_READ: Final = 64 * 1024


class StampedConnection(asyncio.Transport):
    """A connected socket that passes what arrives to a receiver, with the kernel's time of the last part."""

    def __init__(self, sock: socket.socket, receiver: Receiver) -> None:
        super().__init__()
        self._socket = sock
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        sock.setsockopt(socket.SOL_SOCKET, _STAMPS, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        receiver.connection_made(self)
        self._loop.add_reader(sock, self._read)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send a request, which a new connection takes at once."""
        if self._socket.send(data) != len(data):
            self.abort()

    def is_closing(self) -> bool:
        """True after `abort`."""
        return self._socket.fileno() < 0

    def abort(self) -> None:
        """Close the connection."""
        self._end(None)

    def _read(self) -> None:
        try:
            data, messages, _, _ = self._socket.recvmsg(_READ, _ROOM)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
            return
        if data:
            self._receiver.receive(data, time.monotonic_ns() - _age(messages))
        else:
            self._end(None)

    def _end(self, error: OSError | None) -> None:
        if not self.is_closing():
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._loop.call_soon(self._receiver.connection_lost, error)


def _age(messages: list[tuple[int, int, bytes]]) -> int:
    """Return the nanoseconds since the kernel got the data of these messages; 0 if none has a time."""
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == _STAMPS:
            seconds, nanoseconds = _TIME.unpack_from(data)
            arrived: int = seconds * 1_000_000_000 + nanoseconds
            return time.time_ns() - arrived
    return 0
