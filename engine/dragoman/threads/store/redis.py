"""The store in Redis (or Valkey): for gateways on many machines.

A call is one round trip, whatever the size of the store; a path takes two, and one more for each 256 responses. Redis
decides whether a response survives its end: see `appendonly` and `appendfsync` of its configuration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline, batches
from dragoman.threads.store import redis_scripts as scripts
from dragoman.threads.store.interface import ANY_DEPTH, NotStored, OpenedByWith, reason_not_stored
from dragoman.threads.store.node_data import DataCodec, PlainData
from dragoman.threads.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from redis.asyncio import Redis

READ_NODES = 256
"""Most responses that one round trip returns. Redis serves no other client meanwhile."""
READ_BYTES = 8 * 1024**2
"""Bytes after which a round trip returns no more responses."""
SCHEMA = 1
"""The version of what is stored."""
_REMOVED_AT_ONCE = 16
"""Most conversations that one script removes."""


class RedisStore(OpenedByWith):
    """The store in Redis, in keys whose names begin with `{prefix:responses}`.

    Args:
        url: `redis://:PASSWORD@HOST:6379/0`, `rediss://…` with TLS, `unix://PATH`, or several nodes as
            `redis+sentinel://:PASSWORD@HOST:26379,HOST:26379/SERVICE` or `redis+cluster://:PASSWORD@HOST:6379`.
        limits: The limits. They should be the same for all that use the store.
        prefix: The start of the keys' names. Stores with the same prefix share their responses.
        codec: Encrypts what is stored (`NodeCipher`).
        timeout: Seconds that one call may take.
        clock: Returns Unix seconds, for tests. By default the clock of Redis decides what has expired.
        setting: The name of the URL in errors.
    """

    def __init__(
        self,
        url: str,
        limits: ThreadLimits = DEFAULT_THREAD_LIMITS,
        *,
        prefix: str = "dragoman",
        codec: DataCodec | None = None,
        timeout: float = 5.0,
        clock: Callable[[], float] | None = None,
        setting: str = "its URL",
    ) -> None:
        self.clock = clock or time.time
        self._own_clock = clock
        self._limits = limits
        self._codec: DataCodec = codec or PlainData()
        self._keys = (f"{{{prefix}:responses}}",)
        self._connection = RedisConnection(url, timeout, setting=setting, schema=(f"{self._keys[0]}:schema", SCHEMA))

    async def open(self) -> None:
        """Create the client. Connections are opened when they are needed, so Redis may start later."""
        await self._connection.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""
        limits = self._limits
        most = (str(limits.nodes), str(limits.size), str(limits.owner_size))
        args = (
            *self._named(node.owner, node.id),
            b"-" if node.parent is None else b"+" + _bytes(node.parent),
            str(node.created),
            str(node.size),
            self._codec.encode(node),
            str(int(limits.ttl * 1000)),
            *most,
            str(limits.depth),
            str(_REMOVED_AT_ONCE),
            str(limits.tree),
        )
        async with self._connection.call() as redis:
            result, more = await self._connection.run_in(redis, scripts.PUT, self._keys, args)
            while more:
                room = (*self._named(node.owner, ""), *most, str(_REMOVED_AT_ONCE))
                more = await self._connection.run_in(redis, scripts.MAKE_ROOM, self._keys, room)
        if result != b"stored":
            raise NotStored(reason_not_stored(result.decode(), node, limits))

    async def get(self, owner: str, node_id: str) -> Node | None:
        """Return a response, or None if the owner has none of this id."""
        found = await self._connection.run(scripts.GET, self._keys, self._named(owner, node_id))
        if not found:
            return None
        (outline,) = _outlines(b"", [_bytes(node_id), found[0]])
        return Node(owner, node_id, outline.parent, outline.created, *self._codec.decode(owner, node_id, found[1]))

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        async with self._connection.call() as redis:
            outlines = await self._path(redis, owner, node_id)
            nodes = await self._nodes(redis, owner, outlines)
        return nodes if outlines and len(nodes) == len(outlines) else None

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        async with self._connection.call() as redis:
            return await self._path(redis, owner, node_id) or None

    async def _path(self, redis: Redis, owner: str, node_id: str) -> list[Outline]:
        found = await self._connection.run_in(redis, scripts.PATH, self._keys, self._named(owner, node_id))
        return _outlines(*found)[::-1] if found else []

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of a conversation, oldest first."""
        async with self._connection.call() as redis:
            return await self._nodes(redis, owner, await self._tree(redis, owner, node_id, ANY_DEPTH))

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` responses of each path."""
        async with self._connection.call() as redis:
            return await self._tree(redis, owner, node_id, depth)

    async def _tree(self, redis: Redis, owner: str, node_id: str, depth: int) -> list[Outline]:
        args = (*self._named(owner, node_id), str(depth))
        found = await self._connection.run_in(redis, scripts.TREE, self._keys, args)
        if not found:
            return []
        root, pairs = found
        stored = sorted(zip(pairs[::2], pairs[1::2], strict=True), key=lambda pair: int(pair[1].split(b" ", 4)[3]))
        return _outlines(root, [value for pair in stored for value in pair])

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses, without those that were deleted meanwhile."""
        async with self._connection.call() as redis:
            return await self._nodes(redis, owner, outlines)

    async def _nodes(self, redis: Redis, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        nodes: list[Node] = []
        for batch in batches(outlines, READ_BYTES, READ_NODES):
            tree = self._data_key(_bytes(owner), _bytes(batch[0].root))
            values: list[Any] = await redis.hmget(tree, [_bytes(each.id) for each in batch])
            for each, data in zip(batch, values, strict=True):
                if data is not None:
                    contents = self._codec.decode(owner, each.id, data)
                    nodes.append(Node(owner, each.id, each.parent, each.created, *contents))
        return nodes

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        return bool(await self._connection.run(scripts.DELETE, self._keys, self._named(owner, node_id)))

    async def expire(self) -> int:
        """Delete the conversations whose time is over."""
        removed = 0
        # In pieces: Redis serves no other client during a script.
        args = (*self._named("", ""), str(_REMOVED_AT_ONCE))
        while some := int(await self._connection.run(scripts.EXPIRE, self._keys, args)):
            removed += some
        return removed

    def _data_key(self, owner: bytes, root: bytes) -> bytes:
        """Return the key of the contents of a tree's responses, as `redis_scripts` describes it."""
        return b"%b:data:%d:%b%b" % (self._keys[0].encode(), len(owner), owner, root)

    def _named(self, owner: str, node_id: str) -> tuple[str | bytes, bytes, bytes]:
        """Return the first arguments of each script: the time, an owner, and an id."""
        now = "" if self._own_clock is None else str(int(self._own_clock() * 1000))
        return now, _bytes(owner), _bytes(node_id)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _outlines(root: bytes, pairs: list[bytes]) -> list[Outline]:
    """Return the outlines of the responses of one tree, from their ids and what is stored of them in turn."""
    outlines: list[Outline] = []
    for name, stored in zip(pairs[::2], pairs[1::2], strict=True):
        _, created, size, _, parent = stored.split(b" ", 4)
        before = _text(parent[1:]) if parent[:1] == b"+" else None
        outlines.append(Outline(_text(name), _text(root), before, int(created), int(size)))
    return outlines
