"""Shared routing in Redis (or Valkey), for processes on many machines.

The calls of one turn of the event loop share a round trip. Times are those of Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.threads import RedisConnection
from dragoman_server.accounts.store.redis_pipe import RedisPipe
from dragoman_server.proxy.shared_routing import redis_scripts as scripts
from dragoman_server.proxy.shared_routing.interface import Answer, RetryClaim
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

SCHEMA = 1
"""The version of what is stored."""
_CONNECTIONS = 4


class RedisRoutingStore:
    """The store in keys whose names begin with `{prefix:routing}` and `{prefix:issuers:…}`.

    One call may take `timeout` seconds. `clock` returns Unix seconds, for tests; by default times are those of Redis.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str,
        timeout: float,
        clock: Callable[[], float] | None = None,
        setting: str = "store.url",
    ) -> None:
        self._clock = clock
        self._prefix = prefix
        self._keys = (f"{{{prefix}:routing}}",)
        self._connection = RedisConnection(
            url,
            timeout,
            setting=setting,
            decode=True,
            connections=_CONNECTIONS,
            schema=(f"{self._keys[0]}:schema", SCHEMA),
        )
        self._pipe: RedisPipe | None = None

    async def open(self) -> None:
        """Create the client. Connections are opened when they are needed."""
        await self._connection.open()
        self._pipe = None if self._connection.is_cluster else RedisPipe(self._connection)

    async def close(self) -> None:
        """Close all connections."""
        if self._pipe is not None:
            await self._pipe.close()
            self._pipe = None
        await self._connection.close()

    async def _run(self, script: str, keys: Sequence[str], args: Sequence[str]) -> Any:
        if self._pipe is not None:
            return await self._pipe.run(script, keys, args)
        return await self._connection.run(script, keys, args)

    def _now(self) -> str:
        return "" if self._clock is None else str(int(self._clock() * 1000))

    async def exchange(self, process: str, claims: Sequence[PlaceClaim], retries: RetryClaim) -> Answer:
        """Record what a process uses and needs, and grant what is free."""
        args = [self._now(), process, *map(str, retries)]
        for name, *numbers in claims:
            args += (name, *(str(int(number)) for number in numbers))
        processes, granted, *numbers = await self._run(scripts.EXCHANGE, self._keys, args)
        grants = [Grant(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
        return Answer(processes, granted, grants)

    def _keys_of(self, owner: str) -> tuple[str, str]:
        name = f"{{{self._prefix}:issuers:{owner}}}"
        return name, f"{name}:used"

    async def keep_issuer(self, owner: str, response: str, issuer: str) -> None:
        """Keep the issuer of a response."""
        await self._run(scripts.KEEP_ISSUER, self._keys_of(owner), (self._now(), response, issuer))

    async def find_issuer(self, owner: str, response: str) -> str | None:
        """Return the issuer of a response; None if it is not known."""
        found: str | None = await self._run(scripts.FIND_ISSUER, self._keys_of(owner), (self._now(), response))
        return found
