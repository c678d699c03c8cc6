"""A connection to Redis that runs scripts, with a limit of time for each call and advice in each error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from dragoman.threads.store.interface import StoreError

if TYPE_CHECKING:
    from redis.asyncio import Redis

CONNECTIONS = 64
"""Most connections of a store. Each call holds one for a round trip; more calls wait for one, up to the timeout."""
_ADVICE = {
    "OutOfMemoryError": "Redis has reached its maxmemory: raise it, or store less",
    "ReadOnlyError": "it is a replica, which cannot be written: name the primary",
    "AuthenticationError": "check the user and the password in its URL",
    "AuthenticationWrongNumberOfArgsError": "check the user and the password in its URL",
    "NoPermissionError": "let this user run scripts and all commands on its keys",
    "BusyLoadingError": "Redis reads its data after a start: it answers when it has read them",
    "ConnectionError": "check that Redis runs, and its address",
}
"""Advice by the name of the error's class."""
_ADVICE_BY_CODE = {
    "MISCONF": "Redis cannot write its own file: make room on its disk, and read its log",
    "BUSY": "Redis runs a long script of another client",
    "NOREPLICAS": "Redis waits for its replicas (min-replicas-to-write)",
    "MOVED": "this is a cluster: name a proxy that speaks for all of it, or a Redis without cluster mode",
}
"""Advice by the first word of the error."""


class RedisConnection:
    """The connections to one Redis. They are opened when they are needed, and again after they were lost.

    Args:
        url: `redis://:PASSWORD@HOST:6379/0`, `rediss://…` with TLS, or `unix://PATH`.
        timeout: Seconds that one call may take.
        connections: Most connections.
    """

    def __init__(self, url: str, timeout: float, connections: int = CONNECTIONS) -> None:
        self._url = url
        self._timeout = timeout
        self._connections = connections
        self._redis: Redis | None = None
        self._hashes: dict[str, str] = {}

    async def open(self) -> None:
        """Create the client. Raises StoreError without the package redis, or for a URL of another form."""
        try:
            # The import takes half a second, and the package is an extra.
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise StoreError("Redis needs the package redis: pip install 'dragoman[redis]'") from None
        try:
            pool = BlockingConnectionPool.from_url(
                self._url,
                max_connections=self._connections,
                timeout=self._timeout,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                # A call that is repeated after an unknown result could be done twice.
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError:
            # The URL may hold a password, so it is not repeated.
            raise StoreError("the URL of Redis is not valid: expected redis://HOST:6379/0") from None
        self._redis = Redis.from_pool(pool)

    async def close(self) -> None:
        """Close all connections."""
        redis, self._redis = self._redis, None
        if redis is not None:
            async with self._errors():
                await redis.aclose()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Redis]:
        """Give the client for one call of the store, which has the limit of time. Raises StoreError."""
        if self._redis is None:
            raise StoreError("the store is not open")
        async with self._errors():
            yield self._redis

    async def run(self, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes]) -> Any:
        """Run one script within its own limit of time, and return its result. Raises StoreError."""
        async with self.call() as redis:
            return await self.run_in(redis, script, keys, args)

    async def run_in(self, redis: Redis, script: str, keys: Sequence[str | bytes], args: Sequence[str | bytes]) -> Any:
        """Run one script within a call. Redis knows it by its hash, unless Redis was restarted."""
        from redis.exceptions import NoScriptError

        digest = self._hashes.get(script)
        if digest is None:
            digest = self._hashes[script] = sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await redis.evalsha(digest, len(keys), *keys, *args)
        except NoScriptError:
            return await redis.eval(script, len(keys), *keys, *args)

    @asynccontextmanager
    async def _errors(self) -> AsyncIterator[None]:
        from redis.exceptions import RedisError

        try:
            # One limit for waiting for a connection, opening it and the answer, each of which has its own in redis-py.
            async with asyncio.timeout(self._timeout):
                yield
        except TimeoutError:
            raise StoreError(f"Redis did not answer within {self._timeout:g} s") from None
        except (RedisError, OSError) as error:
            raise StoreError(f"Redis: {advice(error)}") from None


def advice(error: Exception) -> str:
    """Return the text of an error of Redis, with what to do about it."""
    from redis.exceptions import TimeoutError as Late

    text = str(error)
    if isinstance(error, Late):
        return f"{text} (it is too slow, or the network loses its packets)"
    name = type(error).__name__
    hint = _ADVICE.get(name) or _ADVICE_BY_CODE.get(text.partition(" ")[0])
    return f"{text} ({hint})" if hint else text
