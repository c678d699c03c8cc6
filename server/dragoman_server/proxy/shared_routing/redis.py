"""Shared routing in Redis (or Valkey), for processes on many machines.

The calls of one turn of the event loop share a round trip. Times are those of Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.threads import RedisConnection
from dragoman_server.accounts.store.redis_pipe import RedisCalls
from dragoman_server.proxy.shared_routing import redis_scripts as scripts
from dragoman_server.proxy.shared_routing.interface import Answer, RetryClaim
from dragoman_server.routing.shared_slots import Grant, PlaceClaim

SCHEMA = 1
"""The version of what is stored."""
_CONNECTIONS = 4


class RedisRoutingStore(RedisCalls):
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
        schema = f"{self._keys[0]}:schema", SCHEMA
        connection = RedisConnection(
            url, timeout, setting=setting, decode=True, connections=_CONNECTIONS, schema=schema
        )
        super().__init__(connection)

    def _now(self) -> str:
        return "" if self._clock is None else str(int(self._clock() * 1000))

    async def exchange(self, process: str, claims: Sequence[PlaceClaim], retries: RetryClaim) -> Answer:
        """Record what a process uses and needs, and grant what is free."""
        args = [self._now(), process, *map(str, retries)]
        for name, *numbers in claims:
            args += (name, *(str(int(number)) for number in numbers))
        processes, granted, *numbers = await self.run(scripts.EXCHANGE, self._keys, args)
        grants = [Grant(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
        return Answer(processes, granted, grants)

    def _keys_of(self, owner: str) -> tuple[str, str]:
        name = f"{{{self._prefix}:issuers:{owner}}}"
        return name, f"{name}:used"

    def _runs_of(self, owner: str) -> tuple[str, str]:
        name = f"{{{self._prefix}:issuers:{owner}}}:runs"
        return name, f"{name}:begun"

    async def keep_issuer(self, owner: str, response: str, issuer: str) -> None:
        """Keep the issuer of a response."""
        await self.run(scripts.KEEP_ISSUER, self._keys_of(owner), (self._now(), response, issuer))

    async def find_issuer(self, owner: str, response: str) -> str | None:
        """Return the issuer of a response; None if it is not known."""
        found: str | None = await self.run(scripts.FIND_ISSUER, self._keys_of(owner), (self._now(), response))
        return found

    async def keep_run(self, owner: str, response: str, record: str) -> None:
        """Keep the record of a running response."""
        await self.run(scripts.KEEP_RUN, self._runs_of(owner), (self._now(), response, record))

    async def take_run(self, owner: str, response: str) -> str | None:
        """Return the record of a running response; None without one, or if it is taken."""
        found: str | None = await self.run(scripts.TAKE_RUN, self._runs_of(owner), (self._now(), response))
        return found

    async def end_run(self, owner: str, response: str) -> None:
        """Remove the record of a running response."""
        await self.run(scripts.END_RUN, self._runs_of(owner), (self._now(), response))
