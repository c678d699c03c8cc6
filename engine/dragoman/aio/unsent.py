"""The number of bytes that a client has not taken yet."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Final

if sys.platform == "linux":
    import fcntl
    import termios

SLOW_WRITES: Final = 10
"""Most write timeouts that one write may take to a client that reads slowly. Without a bound, one that takes a byte in
each would keep its upstream for ever."""


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
