"""The bytes that a peer has not taken yet: their number, and how many the kernel keeps."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import Final

if sys.platform == "linux":
    import fcntl
    import termios

SLOW_WRITES: Final = 10
"""Most write timeouts that one write may take to a client that reads slowly. Without a bound, one that takes a byte in
each would keep its upstream for ever."""
KERNEL_UNSENT: Final = 128 * 1024
"""Bytes for one connection that the kernel takes beyond those that the peer has room for."""


def limit_unsent(sock: socket.socket) -> None:
    """Limit what the kernel keeps of the data written to a connection, or to the connections of a listening socket.

    Linux keeps up to 4 MB for each. All connections share its memory for TCP (`tcp_mem`), and once that is used up, it
    drops data of all of them: 1,000 clients that stop reading would delay the others by seconds. Data that the peer has
    room for does not count, so a client that reads is sent as fast as before. Does nothing on systems without
    TCP_NOTSENT_LOWAT.
    """
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # the system does not know it
            sock.setsockopt(socket.IPPROTO_TCP, option, KERNEL_UNSENT)


def unsent(transport: asyncio.WriteTransport | None) -> int:
    """Return the bytes that were written to a connection and that the client's system has not acknowledged.

    They are those of the transport's buffer and, on Linux, those of the kernel's (`SIOCOUTQ`). The kernel takes more
    only when a third of its buffer, up to megabytes, is free: of a client that reads slowly, the transport's buffer
    stays as it is for minutes.
    """
    if transport is None:
        return 0
    size = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if sys.platform == "linux" and connection is not None:
        with suppress(OSError, ValueError):  # it is closed already
            size += int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return size
