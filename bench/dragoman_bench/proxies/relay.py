"""A raw TCP relay: asyncio protocols connect two sockets without parsing. A lower bound of the cost of any proxy."""

from __future__ import annotations

import asyncio
from typing import cast

from dragoman_bench.proxies.serving import End, Place, serve

_BACKLOG = 4096


class Side(asyncio.Protocol):
    """One side of the relay. It writes its data to the other side, and pauses while that side is full."""

    __slots__ = ("other", "transport", "waiting")

    def __init__(self, other: Side | None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.waiting = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the data that the client has sent so far."""
        self.transport = cast("asyncio.Transport", transport)
        if self.other is not None:
            self.other.other = self
            if self.other.waiting:
                self.transport.write(bytes(self.other.waiting))
                self.other.waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Write the data to the other side, or keep it until that is connected."""
        if self.other is None or self.other.transport is None:
            self.waiting += data
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Pause reading of the other side: this one is full."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume reading of the other side."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other side."""
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Inbound(Side):
    """The client's side; it opens the connection to the upstream."""

    __slots__ = ("dialling", "gone", "place")

    def __init__(self, place: Place) -> None:
        super().__init__(None)
        self.place = place
        self.gone = False
        self.dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the upstream."""
        self.transport = cast("asyncio.Transport", transport)
        self.dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: Side(self), self.place.host, self.place.upstream_port)
        except OSError:
            if self.transport is not None:
                self.transport.abort()
        if self.gone and self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other side, also while it is being connected."""
        self.gone = True
        super().connection_lost(error)


async def begin(place: Place) -> End:
    """Serve until the context ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Inbound(place), "127.0.0.1", place.port, backlog=_BACKLOG)

    async def end() -> None:
        server.close()

    return end


if __name__ == "__main__":
    serve(begin)
