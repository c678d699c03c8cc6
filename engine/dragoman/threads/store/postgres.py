"""The store in PostgreSQL: for gateways on many machines, and for those who query what is stored.

A response is stored in one round trip, when the server has committed it; a second one follows if others must make room.
Those of different conversations are stored at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline, batches
from dragoman.threads.store import postgres_schema as statements
from dragoman.threads.store.interface import ANY_DEPTH, NotStored, OpenedByWith, reason_not_stored
from dragoman.threads.store.node_data import DataCodec, PlainData
from dragoman.threads.store.postgres_connection import PostgresConnection

READ_NODES = 1000
"""Most responses that one query returns with their contents."""
READ_BYTES = 8 * 1024**2
"""Bytes after which a query returns no more responses."""
_REMOVED_AT_ONCE = 16
"""Most conversations that one call removes."""


class PostgresStore(OpenedByWith):
    """The store in a schema of a PostgreSQL database, which is created if it does not exist.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:5432/DATABASE`; TLS by `?sslmode=`, as of libpq.
        limits: The limits. They should be the same for all that use the store.
        schema: The name of the schema. Stores with the same schema share their responses.
        codec: Encrypts what is stored (`NodeCipher`).
        timeout: Seconds that one call may take.
        clock: Returns Unix seconds, for tests. By default the clock of the server decides what has expired.
        setting: The name of the URL in errors.
    """

    def __init__(
        self,
        url: str,
        limits: ThreadLimits = DEFAULT_THREAD_LIMITS,
        *,
        schema: str = "dragoman",
        codec: DataCodec | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] | None = None,
        setting: str = "its URL",
    ) -> None:
        self.clock = clock or time.time
        self._own_clock = clock
        self._limits = limits
        self._codec: DataCodec = codec or PlainData()
        self._connection = PostgresConnection(url, statements.RESPONSES, timeout, schema=schema, setting=setting)
        self._sql = self._connection.sql

    async def open(self) -> None:
        """Create the pool. Connections are opened when they are needed, so the server may start later."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""
        limits, owner = self._limits, _bytes(node.owner)
        parent = None if node.parent is None else _bytes(node.parent)
        contents = (node.created, node.size, self._codec.encode(node), limits.ttl)
        most = (limits.nodes, limits.size, limits.owner_size)
        args = (owner, _bytes(node.id), parent, *contents, *most, limits.depth, limits.tree, _REMOVED_AT_ONCE)
        async with self._connection.call() as db:
            result, more = await db.fetchrow(self._sql(statements.PUT), self._now(), *args)
            while more:
                more = await db.fetchval(self._sql(statements.MAKE_ROOM), owner, *most, _REMOVED_AT_ONCE)
        if result != "stored":
            raise NotStored(reason_not_stored(result, node, limits))

    async def get(self, owner: str, node_id: str) -> Node | None:
        """Return a response, or None if the owner has none of this id."""
        async with self._connection.call() as db:
            row = await db.fetchrow(self._sql(statements.GET), *self._named(owner, node_id))
        if row is None:
            return None
        parent, created, data = row
        contents = self._codec.decode(owner, node_id, data)
        return Node(owner, node_id, _text_or_none(parent), created, *contents)

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        async with self._connection.call() as db:
            outlines = await self._path(db, owner, node_id)
            nodes = await self._nodes(db, owner, outlines)
        return nodes if outlines and len(nodes) == len(outlines) else None

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        async with self._connection.call() as db:
            return await self._path(db, owner, node_id) or None

    async def _path(self, db: Any, owner: str, node_id: str) -> list[Outline]:
        found = _outlines(await db.fetch(self._sql(statements.PATH), *self._named(owner, node_id)))
        return found if found and found[0].parent is None else []

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of a conversation, oldest first."""
        async with self._connection.call() as db:
            return await self._nodes(db, owner, await self._tree(db, owner, node_id, ANY_DEPTH))

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` responses of each path."""
        async with self._connection.call() as db:
            return await self._tree(db, owner, node_id, depth)

    async def _tree(self, db: Any, owner: str, node_id: str, depth: int) -> list[Outline]:
        return _outlines(await db.fetch(self._sql(statements.TREE), *self._named(owner, node_id), depth))

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses, without those that were deleted meanwhile."""
        async with self._connection.call() as db:
            return await self._nodes(db, owner, outlines)

    async def _nodes(self, db: Any, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        nodes: list[Node] = []
        for batch in batches(outlines, READ_BYTES, READ_NODES):
            names = [_bytes(each.id) for each in batch]
            found = dict(await db.fetch(self._sql(statements.NODES), _bytes(owner), names))
            for name, each in zip(names, batch, strict=True):
                if (data := found.get(name)) is not None:
                    contents = self._codec.decode(owner, each.id, data)
                    nodes.append(Node(owner, each.id, each.parent, each.created, *contents))
        return nodes

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        async with self._connection.call() as db:
            return bool(await db.fetchval(self._sql(statements.DELETE), *self._named(owner, node_id)))

    async def expire(self) -> int:
        """Delete the conversations whose time is over."""
        removed = 0
        # In pieces: a reply that ends meanwhile must not wait for all of them.
        while True:
            async with self._connection.call() as db:
                some = int(await db.fetchval(self._sql(statements.EXPIRE), self._now(), _REMOVED_AT_ONCE))
            removed += some
            if not some:
                return removed

    def _now(self) -> float | None:
        return None if self._own_clock is None else self._own_clock()

    def _named(self, owner: str, node_id: str) -> tuple[float | None, bytes, bytes]:
        """Return the first arguments of the statements: the time, an owner, and an id."""
        return self._now(), _bytes(owner), _bytes(node_id)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _text_or_none(data: bytes | None) -> str | None:
    return None if data is None else _text(data)


def _outlines(rows: Sequence[Any]) -> list[Outline]:
    return [
        Outline(_text(name), _text(root), _text_or_none(parent), created, size)
        for name, root, parent, created, size in rows
    ]
