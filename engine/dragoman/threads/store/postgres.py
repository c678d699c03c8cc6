"""The store in PostgreSQL: for gateways on many machines, and for those who query what is stored.

A response is stored in one round trip, when the server has committed it; a second one follows if others must make room.
Those of different conversations are stored at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline
from dragoman.threads.store import postgres_schema as statements
from dragoman.threads.store.interface import NotStored, reason_not_stored
from dragoman.threads.store.node_data import DataCodec
from dragoman.threads.store.postgres_connection import PostgresConnection
from dragoman.threads.store.server_store import ServerStore, name_bytes, read_name

_REMOVED_AT_ONCE = 16
"""Most conversations that one call removes."""


class PostgresStore(ServerStore[PostgresConnection]):
    """The store in a schema of a PostgreSQL database, which is created if it does not exist.

    It has the methods of `Store`.

    Args:
        url: `postgresql://USER:PASSWORD@HOST:5432/DATABASE`; TLS by `?sslmode=`, as of libpq.
        limits: The limits. They should be the same for all that use the store.
        schema: The name of the schema. Stores with the same schema share their responses.
        codec: Encrypts what is stored (`NodeCipher`).
        timeout: Seconds that one call may take.
        clock: Returns Unix seconds, for tests. By default the clock of the server decides what has expired.
        setting: The name of the URL in errors.
    """

    READ_NODES = 1000

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
        connection = PostgresConnection(url, statements.RESPONSES, timeout, schema=schema, setting=setting)
        super().__init__(connection, limits, codec, clock)
        self._sql = connection.sql

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""
        limits, owner = self._limits, name_bytes(node.owner)
        parent = None if node.parent is None else name_bytes(node.parent)
        contents = (node.created, node.size, self._codec.encode(node), limits.ttl)
        most = (limits.nodes, limits.size, limits.owner_size)
        args = (owner, name_bytes(node.id), parent, *contents, *most, limits.depth, limits.tree, _REMOVED_AT_ONCE)
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

    async def _path(self, client: Any, owner: str, node_id: str) -> list[Outline]:
        found = _outlines(await client.fetch(self._sql(statements.PATH), *self._named(owner, node_id)))
        return found if found and found[0].parent is None else []

    async def _tree(self, client: Any, owner: str, node_id: str, depth: int) -> list[Outline]:
        return _outlines(await client.fetch(self._sql(statements.TREE), *self._named(owner, node_id), depth))

    async def _contents(self, client: Any, owner: str, outlines: Sequence[Outline]) -> Sequence[bytes | None]:
        names = [name_bytes(each.id) for each in outlines]
        found = dict(await client.fetch(self._sql(statements.NODES), name_bytes(owner), names))
        return [found.get(name) for name in names]

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        async with self._connection.call() as db:
            return bool(await db.fetchval(self._sql(statements.DELETE), *self._named(owner, node_id)))

    async def _expire_some(self) -> int:
        async with self._connection.call() as db:
            # A database that can only be read must not appear to answer, though nothing has expired.
            await db.execute(self._sql(statements.WRITE))
            return int(await db.fetchval(self._sql(statements.EXPIRE), self._now(), _REMOVED_AT_ONCE))

    def _now(self) -> float | None:
        return None if self._own_clock is None else self._own_clock()

    def _named(self, owner: str, node_id: str) -> tuple[float | None, bytes, bytes]:
        """Return the first arguments of the statements: the time, an owner, and an id."""
        return self._now(), name_bytes(owner), name_bytes(node_id)


def _text_or_none(data: bytes | None) -> str | None:
    return None if data is None else read_name(data)


def _outlines(rows: Sequence[Any]) -> list[Outline]:
    return [
        Outline(read_name(name), read_name(root), _text_or_none(parent), created, size)
        for name, root, parent, created, size in rows
    ]
