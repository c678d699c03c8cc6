"""The open WebSocket connections of a gateway, to be closed when it stops."""

from __future__ import annotations

import asyncio
from typing import Protocol


class OpenConnection(Protocol):
    """An open connection."""

    def leave(self) -> None:
        """Close the connection once its responses have ended."""
        ...

    def drop(self) -> None:
        """Close the connection without waiting for the client."""
        ...


class OpenWebSockets:
    """The open connections of one gateway."""

    def __init__(self) -> None:
        self._connections: set[OpenConnection] = set()
        self._none = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: OpenConnection) -> None:
        """Track a connection until `remove`."""
        self._connections.add(connection)

    def remove(self, connection: OpenConnection) -> None:
        """Stop tracking a connection that has closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._none.set()

    def leave(self) -> None:
        """Close each connection once its responses have ended."""
        for connection in tuple(self._connections):
            connection.leave()

    async def close(self, seconds: float) -> None:
        """Wait until all connections are closed, for at most `seconds`; then drop those that are not."""
        if not self._connections:
            return
        self._none.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._none.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.drop()
