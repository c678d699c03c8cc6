"""The retry budget: retries are limited to a share of the requests, so that they do not multiply an outage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

SECONDS = 10
"""Length of the window in which requests and retries are counted."""
_OWNERS = 10_000
"""Most clients that are counted apart."""


class Budget(Protocol):
    """A retry budget, of one process or of several."""

    def configure(self, share: float, least: int) -> None:
        """Use other limits; what was counted stays."""
        ...

    def count_request(self, owner: bytes = b"") -> None:
        """Count a request of a client, by the digest of its key; without keys it is empty."""
        ...

    async def spend(self, owner: bytes = b"", *, free: bool = False) -> bool:
        """Count a retry and return True, or return False if the budget has none left. A `free` one is always granted.

        A retry at a provider that works is free: it does not multiply an outage. It counts all the same, so the share
        holds again as soon as that provider fails, too. If other clients have used the budget up, each client still has
        the share of its own requests, and one retry at least.
        """
        ...


class RetryBudget:
    """Counts requests and retries in a sliding window of `SECONDS` seconds.

    Args:
        share: The most retries, as a share of the requests.
        least: Retries that are possible however few requests there are.
        clock: A function that returns seconds from any origin.
    """

    def __init__(self, share: float, least: int, clock: Callable[[], float]) -> None:
        self._share = share
        self._least = least
        self._clock = clock
        self._second = int(clock())
        self._requests = [0] * SECONDS
        self._retries = [0] * SECONDS
        self._owners: dict[bytes, list[int]] = {}
        """The requests and the retries of each client since `_began`, a second that is at most `SECONDS` ago."""
        self._began = self._second

    def configure(self, share: float, least: int) -> None:
        """Use other limits; what was counted stays."""
        self._share, self._least = share, least

    def count_request(self, owner: bytes = b"") -> None:
        """Count a request of a client, by the digest of its key; without keys it is empty."""
        self._requests[self._slot()] += 1
        if owner:
            own = self._owners.get(owner)
            if own is None:
                own = self._of(owner)
            own[0] += 1

    async def spend(self, owner: bytes = b"", *, free: bool = False) -> bool:
        """Count a retry and return True, or return False if the budget has none left."""
        slot = self._slot()
        most = max(self._least, int(self._share * sum(self._requests)))
        if not free and sum(self._retries) >= most and not self.has_share(owner):
            return False
        self._retries[slot] += 1
        if owner:
            self._of(owner)[1] += 1
        return True

    def has_share(self, owner: bytes) -> bool:
        """True if a client may have a retry although others have used the budget up. Without keys there is one."""
        self._slot()
        if not owner or not max(self._least, int(self._share * sum(self._requests))):
            return False
        requests, retries = self._of(owner)
        return retries < max(1, int(self._share * requests))

    def _of(self, owner: bytes) -> list[int]:
        if len(self._owners) >= _OWNERS:
            self._owners = {}
        return self._owners.setdefault(owner, [0, 0])

    def _slot(self) -> int:
        """Return the index of the present second, and clear the seconds that have left the window."""
        now = int(self._clock())
        if now > self._second:
            for second in range(max(self._second, now - SECONDS) + 1, now + 1):
                self._requests[second % SECONDS] = self._retries[second % SECONDS] = 0
            self._second = now
            if now - self._began >= SECONDS:
                self._owners, self._began = {}, now
        return self._second % SECONDS
