"""The store in an SQLite file: for one machine, with any number of processes; it survives a restart."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline, batches
from dragoman.threads.store.interface import ANY_DEPTH, NotStored, OpenedByWith, StoreError
from dragoman.threads.store.node_data import DataCodec, PlainData
from dragoman.threads.store.sqlite_reader import SqliteReader
from dragoman.threads.store.sqlite_thread import FULL, IN_MEMORY, SqliteThread

T = TypeVar("T")
Row = tuple[str, str | None, int, bytes]
Value = str | int | float

MIGRATIONS = (
    """
    CREATE TABLE nodes (
        owner TEXT NOT NULL, id TEXT NOT NULL, root TEXT NOT NULL, parent TEXT, depth INTEGER NOT NULL,
        created INTEGER NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL
    );
    CREATE UNIQUE INDEX nodes_by_id ON nodes (owner, id);
    CREATE INDEX nodes_by_root ON nodes (owner, root);
    CREATE TABLE trees (
        owner TEXT NOT NULL, root TEXT NOT NULL, expires REAL NOT NULL, used INTEGER NOT NULL,
        nodes INTEGER NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (owner, root)
    ) WITHOUT ROWID;
    CREATE INDEX trees_by_use ON trees (used);
    CREATE INDEX trees_by_owner ON trees (owner, used);
    CREATE INDEX trees_by_expiry ON trees (expires);
    CREATE TABLE owners (owner TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE totals (nodes INTEGER NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL);
    INSERT INTO totals VALUES (0, 0, 0);
    """,
)
"""Scripts that bring a file from each version of the schema to the next.

`used` numbers the additions of responses: the conversation with the smallest number is removed first.
"""
_EXPIRED_AT_ONCE = 16
"""Most expired conversations that are removed in one transaction."""
_COLUMNS = "nodes.id, nodes.parent, nodes.created, nodes.data"
_OUTLINE = "nodes.id, nodes.root, nodes.parent, nodes.created, nodes.size"
"""The columns of an `Outline`. SQLite does not read the data, which comes after them."""
_LIVE = "FROM nodes JOIN trees USING (owner, root) WHERE nodes.owner = ? AND nodes.id = ? AND trees.expires > ?"
# CROSS JOIN keeps the order of the tables: one look-up in the index for each step, whatever the size of the store.
# An id that was deleted and used again has another depth.
_PATH = f"""
    WITH RECURSIVE up (at, parent, depth) AS (
        SELECT nodes.rowid, nodes.parent, nodes.depth {_LIVE}
        UNION ALL
        SELECT nodes.rowid, nodes.parent, nodes.depth FROM up CROSS JOIN nodes
        WHERE nodes.owner = ? AND nodes.id = up.parent AND nodes.depth = up.depth - 1
    )
    SELECT %s FROM up CROSS JOIN nodes ON nodes.rowid = up.at ORDER BY up.depth
"""
_TREE = f"""
    SELECT %s FROM nodes WHERE owner = ? AND root = (SELECT root {_LIVE}) AND nodes.depth <= ? ORDER BY rowid
"""
_FULL = (
    "SELECT coalesce((SELECT size FROM owners WHERE owner = ?), 0) > ?, totals.nodes > ? OR totals.size > ? FROM totals"
)
_OLDEST = "SELECT owner, root FROM trees ORDER BY used LIMIT 1"
_OLDEST_OF_OWNER = "SELECT owner, root FROM trees WHERE owner = ? ORDER BY used LIMIT 1"


class SqliteStore(OpenedByWith):
    """The store in the file at `path`, which is created for this user only, or in `:memory:`.

    A commit waits for the disk, and responses that are stored at the same time share one. Writes have one thread, reads
    another.

    Args:
        path: The file.
        limits: The limits.
        codec: Encrypts what is stored (`NodeCipher`).
        timeout: Seconds that one call may take.
        clock: Returns Unix seconds.
    """

    VERSION: ClassVar[int] = len(MIGRATIONS)
    """Version of the schema."""

    def __init__(
        self,
        path: str,
        limits: ThreadLimits = DEFAULT_THREAD_LIMITS,
        *,
        codec: DataCodec | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        self._path = path
        self._limits = limits
        self._codec: DataCodec = codec or PlainData()
        self._timeout = timeout
        self._writer: SqliteThread | None = None
        self._reader: SqliteReader | None = None

    async def open(self) -> None:
        """Open the file, create it if it does not exist, and bring it to the current version of the schema."""
        # What is deleted is overwritten: it must not stay readable in the file.
        writer = SqliteThread(self._path, MIGRATIONS, (FULL, "secure_delete = ON"))
        await writer.open()
        self._writer = writer
        if self._path != IN_MEMORY:
            self._reader = SqliteReader(self._path)

    async def close(self) -> None:
        """Commit what is pending, and close the file."""
        reader, self._reader = self._reader, None
        writer, self._writer = self._writer, None
        if reader is not None:
            await reader.close()
        if writer is not None:
            await writer.close()

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""

        def work(db: sqlite3.Connection) -> None:
            _put(db, node, self._codec.encode(node), self._limits, self.clock())

        await self._write(work)

    async def get(self, owner: str, node_id: str) -> Node | None:
        """Return a response, or None if the owner has none of this id."""
        query = f"SELECT {_COLUMNS} {_LIVE}"
        values = (owner, node_id, self.clock())
        nodes = await self._read_nodes(owner, query, values)
        return nodes[0] if nodes else None

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        nodes = await self._read_nodes(owner, _PATH % _COLUMNS, (owner, node_id, self.clock(), owner))
        return nodes if nodes and nodes[0].parent is None else None

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        outlines = await self._read_outlines(_PATH % _OUTLINE, (owner, node_id, self.clock(), owner))
        return outlines if outlines and outlines[0].parent is None else None

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of a conversation, oldest first."""
        return await self._read_nodes(owner, _TREE % _COLUMNS, (owner, owner, node_id, self.clock(), ANY_DEPTH))

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` responses of each path."""
        return await self._read_outlines(_TREE % _OUTLINE, (owner, owner, node_id, self.clock(), depth))

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses, without those that were deleted meanwhile."""
        found: dict[str, Node] = {}
        for batch in batches(outlines):  # SQLite has a limit of variables in a statement
            query = f"SELECT {_COLUMNS} FROM nodes WHERE owner = ? AND id IN ({', '.join('?' * len(batch))})"
            nodes = await self._read_nodes(owner, query, (owner, *(each.id for each in batch)))
            found.update((node.id, node) for node in nodes)
        return [found[each.id] for each in outlines if each.id in found]

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        values = (owner, node_id, self.clock())

        def work(db: sqlite3.Connection) -> bool:
            row = db.execute(f"SELECT nodes.rowid, root, nodes.size {_LIVE}", values).fetchone()
            if row is None:
                return False
            at, root, size = row
            db.execute("DELETE FROM nodes WHERE rowid = ?", (at,))
            _count_removed(db, owner, root, 1, size)
            return True

        return await self._write(work)

    async def expire(self) -> int:
        """Delete the conversations whose time is over."""
        removed = 0
        # In pieces: a reply that ends meanwhile must not wait for all of them.
        while True:
            some = await self._write(lambda db: _remove_expired(db, self.clock(), _EXPIRED_AT_ONCE))
            removed += some
            if not some:
                return removed

    # --- calls of the threads ----------------------------------------------------------------------------------------

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is None:
            raise StoreError("the store is not open")
        try:
            async with asyncio.timeout(self._timeout):
                return await self._writer.run(work)
        except TimeoutError:
            raise self._too_slow() from None

    async def _read_nodes(self, owner: str, query: str, values: tuple[Value, ...]) -> list[Node]:
        return await self._read(lambda db: [self._node(owner, row) for row in db.execute(query, values)])

    async def _read_outlines(self, query: str, values: tuple[Value, ...]) -> list[Outline]:
        return await self._read(lambda db: [Outline(*row) for row in db.execute(query, values)])

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._reader is None:
            return await self._write(work)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._reader.run(work)
        except TimeoutError:
            raise self._too_slow() from None

    def _too_slow(self) -> StoreError:
        return StoreError(f"{self._path} did not answer within {self._timeout:g} s")

    def _node(self, owner: str, row: Row) -> Node:
        node_id, parent, created, data = row
        return Node(owner, node_id, parent, created, *self._codec.decode(owner, node_id, data))


def _put(db: sqlite3.Connection, node: Node, data: bytes, limits: ThreadLimits, now: float) -> None:
    """Add a node within a transaction, and remove conversations that it needs the room of. Raises NotStored.

    Nothing was written when it raises, as the transaction goes on. Expired conversations are not removed here: they are
    among those that are removed first for room, and `expire` removes the others.
    """
    execute = db.cursor().execute  # one cursor for all statements
    owner, root, depth, nodes, size = node.owner, node.id, 1, 0, 0
    if node.parent is not None:
        query = f"SELECT root, depth + 1, trees.nodes, trees.size {_LIVE}"
        before = execute(query, (owner, node.parent, now)).fetchone()
        if before is None:
            raise NotStored(f"the response {node.parent} before it is no longer stored")
        root, depth, nodes, size = before
    if depth > limits.depth:
        raise NotStored(f"its conversation has more than {limits.depth} responses")
    if nodes >= limits.tree:
        raise NotStored(f"its conversation has {limits.tree} responses with all its branches")
    if node.size + size > min(limits.size, limits.owner_size) or nodes >= limits.nodes:
        raise NotStored("its conversation is larger than the store may be")
    try:
        row = (owner, node.id, root, node.parent, depth, node.created, node.size, data)
        execute("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    except sqlite3.IntegrityError:
        raise NotStored(f"there is a response {node.id} already") from None
    # Without RETURNING, which SQLite has since 3.35: enterprise distributions have earlier ones.
    execute("UPDATE totals SET used = used + 1, nodes = nodes + 1, size = size + ?", (node.size,))
    execute(
        "INSERT INTO trees SELECT ?, ?, ?, used, 1, ? FROM totals WHERE true ON CONFLICT DO UPDATE SET"
        " expires = excluded.expires, used = excluded.used, nodes = nodes + 1, size = size + excluded.size",
        (owner, root, now + limits.ttl, node.size),
    )
    execute(
        "INSERT INTO owners VALUES (?, ?) ON CONFLICT DO UPDATE SET size = size + excluded.size", (owner, node.size)
    )
    values = (owner, limits.owner_size, limits.nodes, limits.size)
    while (full := execute(_FULL, values).fetchone()) != (0, 0):
        # First within the owner's own limit, so that it takes no room of others.
        oldest = _OLDEST_OF_OWNER if full[0] else _OLDEST
        _remove_tree(db, *execute(oldest, (owner,) if full[0] else ()).fetchone())


def _count_removed(db: sqlite3.Connection, owner: str, root: str, nodes: int, size: int) -> None:
    """Subtract from the counts of a conversation, its owner and the store; those that are 0 then are removed."""
    db.execute(
        "UPDATE trees SET nodes = nodes - ?, size = size - ? WHERE owner = ? AND root = ?", (nodes, size, owner, root)
    )
    db.execute("UPDATE owners SET size = size - ? WHERE owner = ?", (size, owner))
    db.execute("UPDATE totals SET nodes = nodes - ?, size = size - ?", (nodes, size))
    db.execute("DELETE FROM trees WHERE owner = ? AND root = ? AND nodes = 0", (owner, root))
    db.execute("DELETE FROM owners WHERE owner = ? AND size = 0", (owner,))


def _remove_tree(db: sqlite3.Connection, owner: str, root: str) -> int:
    """Remove a conversation. Return the number of its nodes."""
    nodes, size = db.execute("SELECT nodes, size FROM trees WHERE owner = ? AND root = ?", (owner, root)).fetchone()
    db.execute("DELETE FROM nodes WHERE owner = ? AND root = ?", (owner, root))
    _count_removed(db, owner, root, nodes, size)
    return int(nodes)


def _remove_expired(db: sqlite3.Connection, now: float, most: int) -> int:
    """Remove up to `most` expired conversations. Return the number of their nodes."""
    rows = db.execute("SELECT owner, root FROM trees WHERE expires <= ? LIMIT ?", (now, most)).fetchall()
    return sum(_remove_tree(db, owner, root) for owner, root in rows)
