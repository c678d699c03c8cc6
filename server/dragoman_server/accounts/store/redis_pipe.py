"""One connection to Redis that carries the scripts of one turn of the event loop together.

A call through the pool of redis-py costs more time of the processor than all the rest of a small exchange. Here, calls
that are made in one turn are written together, and so are those that are made until the replies to these have arrived.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dragoman.threads import RedisConnection, StoreError

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

log = logging.getLogger("dragoman")
_IDLE = 1.0
"""Seconds without a call after which the connection is checked first: Redis, or the network, may have closed it."""


class _Call(NamedTuple):
    """A script to run, and the future of its result."""

    script: str
    keys: Sequence[str]
    args: Sequence[str]
    result: asyncio.Future[Any]


class RedisCalls:
    """The common part of stores in Redis whose calls share round trips.

    Scripts run over a `RedisPipe`, or by the connection itself to a cluster, whose calls have several nodes.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self._pipe: RedisPipe | None = None

    async def open(self) -> None:
        """Create the client. Connections are opened when they are needed."""
        await self.connection.open()
        self._pipe = None if self.connection.is_cluster else RedisPipe(self.connection)

    async def close(self) -> None:
        """Close all connections."""
        if self._pipe is not None:
            await self._pipe.close()
            self._pipe = None
        await self.connection.close()

    async def run(self, script: str, keys: Sequence[str], args: Sequence[str]) -> Any:
        """Run one script. Raises StoreError."""
        return await (self._pipe or self.connection).run(script, keys, args)


class RedisPipe:
    """Runs scripts on a connection of the pool of `connection`. It is not for clusters, whose calls have several nodes.

    All calls that wait fail together if the connection fails, or if the replies take longer than one call may.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._calls: list[_Call] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._held: AbstractConnection | None = None
        self._limit: float | None = None
        """The limit of time that the connection has in the pool."""
        self._used = 0.0
        """The event loop's time of the last reply."""

    def run(self, script: str, keys: Sequence[str], args: Sequence[str]) -> asyncio.Future[Any]:
        """Run a script, and return a future of its result, which may raise StoreError."""
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(self._work())
        result: asyncio.Future[Any] = loop.create_future()
        self._calls.append(_Call(script, keys, args, result))
        self._wake.set()
        return result

    async def close(self) -> None:
        """Fail the calls that wait, and give the connection back."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._fail([], "the store is not open")
        await self._release()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._calls:
                batch, self._calls = self._calls, []
                try:
                    await self._send(batch)
                except asyncio.CancelledError:
                    self._fail(batch, "the store is not open")
                    raise
                except Exception as error:
                    log.exception("a call of Redis failed by a defect")
                    await self._release()
                    self._fail(batch, f"Redis: {type(error).__name__}")

    async def _send(self, batch: list[_Call]) -> None:
        try:
            async with self._connection.errors():
                replies = await self._replies(batch)
        except StoreError as error:
            await self._release()
            # Calls that came meanwhile have waited too, and would wait for as long again.
            self._fail(batch, str(error))
            return
        for call, reply in zip(batch, replies, strict=True):
            if call.result.done():
                continue  # its caller has given up
            if isinstance(reply, Exception):
                call.result.set_exception(StoreError(f"Redis: {self._connection.advice(reply)}"))
            else:
                call.result.set_result(reply)

    async def _replies(self, batch: Sequence[_Call]) -> list[Any]:
        """Return the results of scripts, or their errors. Redis knows a script by its hash, unless it was restarted."""
        from redis.exceptions import NoScriptError

        digest = self._connection.digest
        replies = await self._exchange([("EVALSHA", digest(call.script), call) for call in batch])
        unknown = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await self._exchange([("EVAL", batch[at].script, batch[at]) for at in unknown])
            for at, reply in zip(unknown, again, strict=True):
                replies[at] = reply
        self._used = asyncio.get_running_loop().time()
        return replies

    async def _exchange(self, commands: Sequence[tuple[str, str, _Call]]) -> list[Any]:
        from redis.exceptions import ResponseError

        connection = await self._connected()
        packed = connection.pack_commands(
            [(verb, script, len(call.keys), *call.keys, *call.args) for verb, script, call in commands]
        )
        await connection.send_packed_command(packed, check_health=False)
        replies: list[Any] = []
        for _ in commands:
            try:
                replies.append(await connection.read_response(disconnect_on_error=False))
            except ResponseError as error:
                replies.append(error)
        return replies

    async def _connected(self) -> AbstractConnection:
        """Return the connection, to the primary that the Sentinels name if there are any."""
        pool: Any = await self._connection.pool()
        if (held := self._held) is not None:
            primary = getattr(pool, "master_address", None)
            moved = primary is not None and primary != (getattr(held, "host", None), getattr(held, "port", None))
            if moved or not held.is_connected:
                await self._release()
            elif asyncio.get_running_loop().time() - self._used >= _IDLE:
                self._held, held.socket_timeout = None, self._limit
                await pool.release(held)  # the pool checks it when it gives it out
        if self._held is None:
            self._held = held = await pool.get_connection()
            # A batch has one limit of time.
            self._limit, held.socket_timeout = held.socket_timeout, None
        return self._held

    async def _release(self) -> None:
        """Close the connection, so that no late reply is read, and give it back to the pool."""
        held, self._held = self._held, None
        if held is not None:
            held.socket_timeout = self._limit
            with suppress(Exception):
                await held.disconnect(nowait=True)
                await (await self._connection.pool()).release(held)

    def _fail(self, batch: Sequence[_Call], message: str) -> None:
        """Fail these calls, and those that wait."""
        waiting, self._calls = self._calls, []
        for call in (*batch, *waiting):
            if not call.result.done():
                call.result.set_exception(StoreError(message))
