"""The responses that upstreams run in the background by themselves, until the end of each is booked.

What books one is its record: bytes that the routing does not read. It is kept for a day, in the store of the issuers if
there is one: then any process takes it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from dragoman_server.routing.response_issuers import response_digest
from dragoman_server.routing.task_set import TaskSet

RUNS_MAX: Final = 10_000
"""Most records in memory, of less than 2 kB each: beyond it, the client that began none for longest loses one."""
_SHARE: Final = 4
"""The part of them that one client may have: a fourth."""


class SharedRuns(Protocol):
    """The records that processes share. A store that fails keeps and finds nothing."""

    async def keep_run(self, owner: bytes, response: bytes, record: bytes) -> bool:
        """Keep the record of a response, by the digest of its id. Return False if the store fails."""
        ...

    async def take_run(self, owner: bytes, response: bytes) -> bytes | None:
        """Return a record that no process has taken; None without one."""
        ...

    async def end_run(self, owner: bytes, response: bytes) -> None:
        """Remove a record whose response is booked."""
        ...


class RunningResponses:
    """The records by client and response. `limit` is the most in memory."""

    def __init__(self, limit: int = RUNS_MAX) -> None:
        self._limit = limit
        self._known: OrderedDict[bytes, OrderedDict[bytes, bytes]] = OrderedDict()
        """By owner."""
        self._size = 0
        self.shared: SharedRuns | None = None
        """The records that other processes can take; None without a store."""
        self.tasks = TaskSet()
        """Tasks that book ends for which no client waits."""

    def __len__(self) -> int:
        return self._size

    async def keep(self, owner: bytes, given: str, record: bytes) -> None:
        """Keep the record of a response with the id `given`, for the client `owner` only."""
        digest = response_digest(owner, given)
        if self.shared is not None and await self.shared.keep_run(owner, digest, record):
            return
        own = self._known.setdefault(owner, OrderedDict())
        self._known.move_to_end(owner)
        self._size += digest not in own
        own[digest] = record
        if owner and len(own) > self._limit // _SHARE:  # without keys, all clients have the same owner
            self._drop(owner)
        elif self._size > self._limit:
            self._drop(next(iter(self._known)))

    def _drop(self, owner: bytes) -> None:
        own = self._known[owner]
        own.popitem(last=False)
        self._size -= 1
        if not own:
            del self._known[owner]

    async def take(self, owner: bytes, given: str) -> bytes | None:
        """Return the record of a response, to exactly one caller until that has booked it; None without one.

        A process that is killed before `end` has taken it for a minute: then another one can.
        """
        digest = response_digest(owner, given)
        own = self._known.get(owner)
        if own is not None and (record := own.pop(digest, None)) is not None:
            self._size -= 1
            if not own:
                del self._known[owner]
            return record
        return await self.shared.take_run(owner, digest) if self.shared is not None else None

    async def end(self, owner: bytes, given: str) -> None:
        """Remove a record that was taken, as its response is booked."""
        if self.shared is not None:
            await self.shared.end_run(owner, response_digest(owner, given))
