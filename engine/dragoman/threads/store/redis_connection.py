"""A connection to Redis that runs scripts, with a limit of time for each call and advice in each error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any, cast

from dragoman.threads.store.interface import StoreError
from dragoman.threads.store.redis_address import FORMS, RedisAddress, parse_address

if TYPE_CHECKING:
    from redis.asyncio import ConnectionPool, Redis

CONNECTIONS = 64
"""Most connections of a store. Each call holds one for a round trip; more calls wait for one, up to the timeout."""
ASK_SENTINELS = 1.0
"""Seconds after which the Sentinels are asked again which Redis is the primary."""
_PERMISSION = "let the user in {url} run scripts and all commands on its keys, such as +@all ~dragoman:* ~{{dragoman:*"
_ADVICE = {
    "OutOfMemoryError": "Redis has reached its maxmemory: raise it, or store less",
    "ReadOnlyError": "it is a replica, which cannot be written: name the primary in {url}, or use redis+sentinel://",
    "AuthenticationError": "check the user and the password in {url}",
    "AuthenticationWrongNumberOfArgsError": "check the user and the password in {url}",
    "NoPermissionError": _PERMISSION,
    "BusyLoadingError": "Redis reads its data after a start: it answers when it has read them",
    "ConnectionError": "check that Redis runs, and the address in {url}",
    "MasterNotFoundError": "check that the Sentinels in {url} run, and the name of the service there",
    "MovedError": "this is a node of a cluster: write {url} as redis+cluster://HOST:PORT",
    "AskError": "this is a node of a cluster: write {url} as redis+cluster://HOST:PORT",
    "TryAgainError": "the cluster moves a slot: its keys answer when they have moved",
    "ClusterError": "the cluster moves a slot, or its nodes disagree: look at CLUSTER NODES",
    "ClusterDownError": "the cluster does not serve all slots: look at CLUSTER INFO, and repair it",
    "MasterDownError": "it is a replica whose primary is down: name the primary in {url}, or use redis+sentinel://",
    "SlotNotCoveredError": "the cluster does not serve all slots: look at CLUSTER INFO, and repair it",
    "RedisClusterException": "check that the nodes in {url} run, and that they are a cluster that serves all slots",
}
"""Advice by the name of the error's class."""
_CHECK_SCHEMA = """
local found = tonumber(redis.call('GET', KEYS[1]) or 0)
if found < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return found
"""
"""KEYS: the version of the schema. ARGV: the version of this program. Return the version that was found; 0: none."""
_ADVICE_BY_TEXT = {
    "MISCONF": "Redis cannot write its own file: make room on its disk, and read its log",
    "BUSY": "another client runs a long script: end it with SCRIPT KILL",
    "WRONGTYPE": "another program uses keys of these names: name a database of Dragoman's own in {url}",
    "NOREPLICAS": "Redis waits for its replicas: start them, or lower its min-replicas-to-write",
    "OOM": _ADVICE["OutOfMemoryError"],
    "READONLY": _ADVICE["ReadOnlyError"],
    "DENIED": "Redis has no password: set one there and in {url}, or its protected-mode to no",
    "max number of clients reached": "raise maxclients of Redis, or run fewer processes",
    "DB index is out of range": "name another database in {url}: this server has fewer",
    "The user executing the script can't run this command": _PERMISSION,
    "unknown command": "the server has disabled or renamed it, or is not Redis 6.2 or later, or Valkey",
}
"""Advice by the first words of the error. Before version 7, Redis puts its own text before them, and a dash."""
_CODE = re.compile(rf"(?:\A|: -)({'|'.join(_ADVICE_BY_TEXT)})\b")
_IN_SCRIPT = re.compile(r" script: [0-9a-f]{40}, on @user_script:\d+\.?$")
"""The end of an error of a command in a script, which has no meaning for an operator."""


class RedisConnection:
    """The connections to one Redis, or to a cluster. They are opened when they are needed, and after they were lost.

    Args:
        url: `redis://:PASSWORD@HOST:6379/0`, `rediss://…` with TLS, `unix://PATH`, or several nodes as
            `redis+sentinel://:PASSWORD@HOST:26379,HOST:26379/SERVICE` or `redis+cluster://:PASSWORD@HOST:6379`.
        timeout: Seconds that one call may take.
        setting: The name of the URL in errors.
        decode: Return text in place of bytes.
        connections: Most connections.
        schema: The name of the key with the version of what is stored, and the version that the caller reads and
            writes. All calls fail if a later program has stored something.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        *,
        setting: str = "its URL",
        decode: bool = False,
        connections: int = CONNECTIONS,
        schema: tuple[str, int] | None = None,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._setting = setting
        self._decode = decode
        self._connections = connections
        self._schema = schema
        """None once it was checked."""
        self._redis: Redis | None = None
        self._hashes: dict[str, str] = {}
        self._places = asyncio.Semaphore(connections)
        self._sentinels: Sequence[Redis] = ()
        self._asked = -ASK_SENTINELS
        """The event loop's time at which the Sentinels were asked last."""
        self.is_cluster = False
        """True for a cluster, whose calls go to several nodes."""

    @staticmethod
    def url_problem(url: str) -> str:
        """Return what is wrong with a URL, without repeating it; empty if nothing is."""
        try:
            parse_address(url)
        except ValueError as error:
            return str(error)
        return ""

    async def open(self) -> None:
        """Create the client. Raises StoreError without the package redis, or for a URL of another form."""
        try:
            address = parse_address(self._url)
        except ValueError as error:
            # The URL may hold a password, so it is not repeated.
            raise StoreError(f"the URL of Redis is not valid: {error}") from None
        try:
            # The import takes half a second, and the package is an extra.
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise StoreError("Redis needs the package redis: install Dragoman with the extra redis") from None
        options = {
            "decode_responses": self._decode,
            "socket_timeout": self._timeout,
            "socket_connect_timeout": self._timeout,
            # A call that is repeated after an unknown result could be done twice.
            "retry": Retry(NoBackoff(), 0),
        }
        if address.kind == "single":
            self._redis = self._single(options)
        else:
            options |= {"username": address.username, "password": address.password}
            make = self._behind_sentinels if address.kind == "sentinel" else self._cluster
            self._redis = make(address, options)
            self.is_cluster = address.kind == "cluster"

    def _single(self, options: dict[str, Any]) -> Redis:
        from redis.asyncio import BlockingConnectionPool, Redis

        limits: dict[str, Any] = {"max_connections": self._connections, "timeout": self._timeout}
        try:
            return Redis.from_pool(BlockingConnectionPool.from_url(self._url, **limits, **options))
        except ValueError:
            raise StoreError(f"the URL of Redis is not valid: {FORMS}") from None

    def _behind_sentinels(self, address: RedisAddress, options: dict[str, Any]) -> Redis:
        from redis.asyncio.sentinel import Sentinel

        # One Sentinel that hangs must leave time to ask another one.
        patience = self._timeout / (len(address.nodes) + 1)
        known: dict[str, Any] = {
            "username": address.sentinel_username,
            "password": address.sentinel_password,
            "socket_timeout": patience,
            "socket_connect_timeout": patience,
            "retry": options["retry"],
            "ssl": address.tls,
        }
        sentinel: Any = cast("Any", Sentinel)(address.nodes, sentinel_kwargs=known)
        self._sentinels = sentinel.sentinels
        return cast("Redis", sentinel.master_for(address.service, db=address.database, ssl=address.tls, **options))

    def _cluster(self, address: RedisAddress, options: dict[str, Any]) -> Redis:
        from redis.asyncio.cluster import ClusterNode, RedisCluster

        nodes = [ClusterNode(host, port) for host, port in address.nodes]
        limits: dict[str, Any] = {"max_connections": self._connections, "ssl": address.tls}
        # It has the commands of `Redis` that the stores use.
        return cast("Redis", RedisCluster(startup_nodes=nodes, **limits, **options))

    async def close(self) -> None:
        """Close all connections."""
        redis, self._redis = self._redis, None
        if redis is not None:
            sentinels, self._sentinels = self._sentinels, ()
            async with self.errors():
                for client in (redis, *sentinels):
                    await client.aclose()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Redis]:
        """Give the client for one call of the store, which has the limit of time. Raises StoreError."""
        if self._redis is None:
            raise StoreError("the store is not open")
        async with self.errors(), self._places:
            await self._prepare()
            yield self._redis

    async def pool(self) -> ConnectionPool:
        """Return the pool of connections, within a call. It is not that of a cluster. Raises StoreError."""
        if self._redis is None:
            raise StoreError("the store is not open")
        await self._prepare()
        return self._redis.connection_pool

    async def _prepare(self) -> None:
        """Find the primary, and check the schema before the first call. Raises StoreError."""
        await self.find_primary()
        if self._schema is not None and self._redis is not None:
            key, version = self._schema
            found = int(await self.run_in(self._redis, _CHECK_SCHEMA, (key,), (str(version),)))
            if found > version:
                prefix = (
                    f"{self._setting.removesuffix('url')}prefix" if self._setting.endswith(".url") else "the prefix"
                )
                raise StoreError(
                    f"Redis has data of schema version {found}, of a later Dragoman: run that, or change {prefix}"
                )
            self._schema = None

    def advice(self, error: Exception) -> str:
        """Return the text of an error of Redis, with what to do about it."""
        return advice(error, self._setting)

    async def find_primary(self) -> None:
        """Let connections go to another primary if the Sentinels name one. They are asked at most once in a second."""
        pool = None if self._redis is None or self.is_cluster else self._redis.connection_pool
        if not hasattr(pool, "get_master_address"):
            return
        now = asyncio.get_running_loop().time()
        if now - self._asked >= ASK_SENTINELS:
            self._asked = now
            await cast("Any", pool).get_master_address()

    async def run(self, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes]) -> Any:
        """Run one script within its own limit of time, and return its result. Raises StoreError."""
        async with self.call() as redis:
            return await self.run_in(redis, script, keys, args)

    async def run_in(self, redis: Redis, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes]) -> Any:
        """Run one script within a call. Redis knows it by its hash, unless Redis was restarted."""
        from redis.exceptions import NoScriptError

        try:
            return await redis.evalsha(self.digest(script), len(keys), *keys, *args)
        except NoScriptError:
            return await redis.eval(script, len(keys), *keys, *args)

    def digest(self, script: str) -> str:
        """Return the hash by which Redis knows a script."""
        digest = self._hashes.get(script)
        if digest is None:
            digest = self._hashes[script] = sha1(script.encode(), usedforsecurity=False).hexdigest()
        return digest

    @asynccontextmanager
    async def errors(self) -> AsyncIterator[None]:
        """Limit the time of a call, and raise StoreError for what may go wrong with it."""
        from redis.exceptions import RedisClusterException, RedisError

        task = asyncio.current_task()
        cancels = task.cancelling() if task is not None else 0
        try:
            # One limit for waiting for a connection, opening it and the answer, each of which has its own in redis-py.
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError:
            _raise_cancellation(task, cancels)
            raise StoreError(f"Redis did not answer within {self._timeout:g} s") from None
        except (RedisError, RedisClusterException, OSError) as error:
            _raise_cancellation(task, cancels)
            raise StoreError(f"Redis: {advice(error, self._setting)}") from None
        _raise_cancellation(task, cancels)


def _raise_cancellation(task: asyncio.Task[Any] | None, cancels: int) -> None:
    """Raise the cancellation of a task that redis-py has caught: while it opens a connection, it may."""
    if task is not None and task.cancelling() > cancels:
        raise asyncio.CancelledError


def advice(error: Exception, setting: str = "its URL") -> str:
    """Return the text of an error of Redis on one line, with what to do about it. `setting` is the name of the URL."""
    from redis.exceptions import TimeoutError as Late

    text = _IN_SCRIPT.sub("", " ".join(str(error).split()))
    if isinstance(error, Late):
        return f"{text} (it is too slow, or the network loses its packets)"
    found = _CODE.search(text)
    hint = _ADVICE_BY_TEXT[found[1]] if found is not None else _ADVICE.get(type(error).__name__)
    return f"{text} ({hint.format(url=setting)})" if hint else text
