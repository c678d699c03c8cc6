"""The store in Redis (or Valkey): for gateways on many machines.

A call is one round trip, whatever the size of the store; a path takes two, and one more for each 256 responses. Redis
decides whether a response survives its end: see `appendonly` and `appendfsync` of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline
from dragoman.threads.store import redis_scripts as scripts
from dragoman.threads.store.interface import NotStored, reason_not_stored
from dragoman.threads.store.node_data import DataCodec
from dragoman.threads.store.redis_connection import RedisConnection
from dragoman.threads.store.server_store import ServerStore, name_bytes, read_name

if TYPE_CHECKING:
    from redis.asyncio import Redis

SCHEMA = 1
"""The version of what is stored."""
_REMOVED_AT_ONCE = 16
"""Most conversations that one script removes."""


class RedisStore(ServerStore[RedisConnection]):
    """The store in Redis, in keys whose names begin with `{prefix:responses}`.

    It has the methods of `Store`.

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

    READ_NODES = 256
    """Redis serves no other client while it returns them."""

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
        self._keys = (f"{{{prefix}:responses}}",)
        connection = RedisConnection(url, timeout, setting=setting, schema=(f"{self._keys[0]}:schema", SCHEMA))
        super().__init__(connection, limits, codec, clock)

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""
        limits = self._limits
        most = (str(limits.nodes), str(limits.size), str(limits.owner_size))
        args = (
            *self._named(node.owner, node.id),
            b"-" if node.parent is None else b"+" + name_bytes(node.parent),
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
        (outline,) = _outlines(b"", [name_bytes(node_id), found[0]])
        return Node(owner, node_id, outline.parent, outline.created, *self._codec.decode(owner, node_id, found[1]))

    async def _path(self, client: Redis, owner: str, node_id: str) -> list[Outline]:
        found = await self._connection.run_in(client, scripts.PATH, self._keys, self._named(owner, node_id))
        return _outlines(*found)[::-1] if found else []

    async def _tree(self, client: Redis, owner: str, node_id: str, depth: int) -> list[Outline]:
        args = (*self._named(owner, node_id), str(depth))
        found = await self._connection.run_in(client, scripts.TREE, self._keys, args)
        if not found:
            return []
        root, pairs = found
        stored = sorted(zip(pairs[::2], pairs[1::2], strict=True), key=lambda pair: int(pair[1].split(b" ", 4)[3]))
        return _outlines(root, [value for pair in stored for value in pair])

    async def _contents(self, client: Redis, owner: str, outlines: Sequence[Outline]) -> Sequence[bytes | None]:
        tree = self._data_key(name_bytes(owner), name_bytes(outlines[0].root))
        found: list[Any] = await client.hmget(tree, [name_bytes(each.id) for each in outlines])
        return found

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        return bool(await self._connection.run(scripts.DELETE, self._keys, self._named(owner, node_id)))

    async def _expire_some(self) -> int:
        args = (*self._named("", ""), str(_REMOVED_AT_ONCE))
        return int(await self._connection.run(scripts.EXPIRE, self._keys, args))

    def _data_key(self, owner: bytes, root: bytes) -> bytes:
        """Return the key of the contents of a tree's responses, as `redis_scripts` describes it."""
        return b"%b:data:%d:%b%b" % (self._keys[0].encode(), len(owner), owner, root)

    def _named(self, owner: str, node_id: str) -> tuple[str | bytes, bytes, bytes]:
        """Return the first arguments of each script: the time, an owner, and an id."""
        now = "" if self._own_clock is None else str(int(self._own_clock() * 1000))
        return now, name_bytes(owner), name_bytes(node_id)


def _outlines(root: bytes, pairs: list[bytes]) -> list[Outline]:
    """Return the outlines of the responses of one tree, from their ids and what is stored of them in turn."""
    outlines: list[Outline] = []
    for name, stored in zip(pairs[::2], pairs[1::2], strict=True):
        _, created, size, _, parent = stored.split(b" ", 4)
        before = read_name(parent[1:]) if parent[:1] == b"+" else None
        outlines.append(Outline(read_name(name), read_name(root), before, int(created), int(size)))
    return outlines
