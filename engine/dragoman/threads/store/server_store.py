"""The common part of the stores in a database server: their reads are queries of one connection."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from dragoman.threads.limits import ThreadLimits
from dragoman.threads.node import Node, Outline, batches
from dragoman.threads.store.interface import ANY_DEPTH, OpenedByWith
from dragoman.threads.store.node_data import DataCodec, PlainData
from dragoman.threads.store.postgres_connection import PostgresConnection
from dragoman.threads.store.redis_connection import RedisConnection

C = TypeVar("C", bound=RedisConnection | PostgresConnection)


class ServerStore(OpenedByWith, Generic[C]):
    """A store in a server. A subclass has the queries; each gets a client of the connection's `call`.

    Args:
        connection: The connections.
        limits: The limits.
        codec: Encrypts what is stored (`NodeCipher`).
        clock: Returns Unix seconds, for tests. By default the clock of the server decides what has expired.
    """

    READ_BYTES: ClassVar[int] = 8 * 1024**2
    """Bytes after which a query returns no more responses."""
    READ_NODES: ClassVar[int]
    """Most responses that one query returns with their contents."""

    def __init__(
        self, connection: C, limits: ThreadLimits, codec: DataCodec | None, clock: Callable[[], float] | None
    ) -> None:
        self.clock = clock or time.time
        self._own_clock = clock
        self._limits = limits
        self._codec: DataCodec = codec or PlainData()
        self._connection = connection

    async def open(self) -> None:
        """Prepare the connections. Each is opened when it is needed, so the server may start later."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        async with self._connection.call() as client:
            outlines = await self._path(client, owner, node_id)
            nodes = await self._nodes(client, owner, outlines)
        return nodes if outlines and len(nodes) == len(outlines) else None

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        async with self._connection.call() as client:
            return await self._path(client, owner, node_id) or None

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of a conversation, oldest first."""
        async with self._connection.call() as client:
            return await self._nodes(client, owner, await self._tree(client, owner, node_id, ANY_DEPTH))

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` responses of each path."""
        async with self._connection.call() as client:
            return await self._tree(client, owner, node_id, depth)

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses, without those that were deleted meanwhile."""
        async with self._connection.call() as client:
            return await self._nodes(client, owner, outlines)

    async def _nodes(self, client: Any, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        nodes: list[Node] = []
        for batch in batches(outlines, self.READ_BYTES, self.READ_NODES):
            for each, data in zip(batch, await self._contents(client, owner, batch), strict=True):
                if data is not None:
                    contents = self._codec.decode(owner, each.id, data)
                    nodes.append(Node(owner, each.id, each.parent, each.created, *contents))
        return nodes

    async def expire(self) -> int:
        """Delete the conversations whose time is over."""
        removed = 0
        # In pieces: a reply that ends meanwhile must not wait for all of them.
        while some := await self._expire_some():
            removed += some
        return removed

    @abstractmethod
    async def _path(self, client: Any, owner: str, node_id: str) -> list[Outline]:
        """Return the nodes from the root to this one; none if one of them is not there."""

    @abstractmethod
    async def _tree(self, client: Any, owner: str, node_id: str, depth: int) -> list[Outline]:
        """Return the nodes of a conversation up to a depth, oldest first."""

    @abstractmethod
    async def _contents(self, client: Any, owner: str, outlines: Sequence[Outline]) -> Sequence[bytes | None]:
        """Return what is stored of these nodes; None for one that was deleted."""

    @abstractmethod
    async def _expire_some(self) -> int:
        """Delete some conversations whose time is over. Return the number of their responses."""


def name_bytes(name: str) -> bytes:
    """Return the bytes of an owner or an id: aiohttp decodes what clients send with surrogateescape."""
    return name.encode("utf-8", "surrogateescape")


def read_name(data: bytes) -> str:
    """Return the owner or the id of these bytes."""
    return data.decode("utf-8", "surrogateescape")
