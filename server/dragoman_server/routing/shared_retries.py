"""The retry budget of several processes: a store counts their requests and retries together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from dragoman_server.routing.retry_budget import RetryBudget


class RetryCounts(NamedTuple):
    """The counts that a process has to report since its last report, and the number of retries that it wants.

    `requests` of clients have come, and `made` retries were made that no store granted.
    """

    requests: int
    made: int
    wanted: int


class SharedRetryBudget:
    """A budget whose retries a store grants. `own` is that of this process, which counts the share of each client.

    While the store fails, the retries of this process are limited to a share of its own requests. `changed` is called
    when a retry waits for the store.
    """

    def __init__(self, own: RetryBudget, changed: Callable[[bool], None]) -> None:
        self._own = own
        self._changed = changed
        self._requests = self._made = 0
        self._waiting: list[asyncio.Future[bool | None]] = []
        self._claimed: list[asyncio.Future[bool | None]] = []
        self._last = RetryCounts(0, 0, 0)
        self._is_alone = False
        """True while the store fails."""

    def configure(self, share: float, least: int) -> None:
        """Use other limits; what was counted stays."""
        self._own.configure(share, least)

    def count_request(self, owner: bytes = b"") -> None:
        """Count a request of a client."""
        self._own.count_request(owner)
        self._requests += 1

    async def spend(self, owner: bytes = b"", *, free: bool = False) -> bool:
        """Count a retry and return True, or return False if the budget has none left. It waits for the store."""
        if not free and not self._is_alone:
            granted: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
            self._waiting.append(granted)
            self._changed(True)
            found = await granted
            if found is not None:
                if not found:
                    if not self._own.has_share(owner):
                        return False
                    self._made += 1
                return await self._own.spend(owner, free=True)
        if not await self._own.spend(owner, free=free):
            return False
        self._made += 1
        return True

    # --- the store ---------------------------------------------------------------------------------------------------

    def claim(self) -> RetryCounts:
        """Return what the store has to know, and the number of retries that wait for it."""
        self._waiting, self._claimed = [], self._waiting
        self._last = RetryCounts(self._requests, self._made, len(self._claimed))
        self._requests = self._made = 0
        return self._last

    def grant(self, number: int) -> None:
        """Make so many of the retries that were claimed, and refuse the others."""
        self._is_alone = False
        claimed, self._claimed = self._claimed, []
        for at, each in enumerate(claimed):
            if not each.done():
                each.set_result(at < number)

    def fail(self) -> None:
        """Decide here: the store did not answer the last claim."""
        self._is_alone = True
        self._requests += self._last.requests
        self._made += self._last.made
        waiting, self._waiting, self._claimed = (*self._claimed, *self._waiting), [], []
        for each in waiting:
            if not each.done():
                each.set_result(None)
