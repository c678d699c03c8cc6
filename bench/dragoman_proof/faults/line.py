"""A server's end of one connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Final

from dragoman import Dialect

_LINGER_0: Final = struct.pack("ii", 1, 0)
"""SO_LINGER by which closing a socket sends RST."""


def reset(transport: asyncio.WriteTransport) -> None:
    """End a connection by RST."""
    with suppress(OSError, AttributeError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    transport.abort()


class Line:
    """One connection from the gateway. `dialect` is the upstream's."""

    def __init__(self, dialect: Dialect, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.dialect = dialect
        self.reader = reader
        self.is_reused = False
        """True if a request came on a connection on which the bounds of replies are lost."""
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send data, and let the gateway read it before more is sent. Raises ConnectionError."""
        if data:
            self._writer.write(data)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def request(self) -> bytes:
        """Return the next request. Raises EOFError and ConnectionError if none comes."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head + await self.reader.readexactly(int(length.partition(b":")[2]))

    def is_gone(self) -> bool:
        """True if the gateway has ended its side."""
        return self.reader.at_eof() or self._writer.transport.is_closing()

    async def gone(self) -> None:
        """Wait until the gateway ends its side, or sends a request where it must not."""
        with suppress(ConnectionError):
            self.is_reused = bool(await self.reader.read(65536))

    def reset(self) -> None:
        """End the connection by RST."""
        reset(self._writer.transport)

    def half_close(self) -> None:
        """End this direction, and go on reading."""
        self._writer.write_eof()
