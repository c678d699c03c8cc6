"""The retry budget: retries are limited to a share of the requests, so that they do not multiply an outage."""

from __future__ import annotations

from collections.abc import Callable

SECONDS = 10
"""Length of the window in which requests and retries are counted."""


class RetryBudget:
    """Counts requests and retries in a sliding window of `SECONDS` seconds.

    Args:
        share: The most retries, as a share of the requests.
        least: Retries that are possible however few requests there are.
        clock: Returns seconds from any origin.
    """

    def __init__(self, share: float, least: int, clock: Callable[[], float]) -> None:
        self._share = share
        self._least = least
        self._clock = clock
        self._second = int(clock())
        self._requests = [0] * SECONDS
        self._retries = [0] * SECONDS

    def configure(self, share: float, least: int) -> None:
        """Use other limits; what was counted stays."""
        self._share, self._least = share, least

    def count_request(self) -> None:
        """Count a client's request."""
        self._requests[self._slot()] += 1

    def spend(self, *, free: bool = False) -> bool:
        """Count a retry and return True, or return False if the budget has none left. A `free` one is always granted.

        A retry at a provider that works is free: it does not multiply an outage. It counts all the same, so the share
        holds again as soon as that provider fails, too.
        """
        slot = self._slot()
        if not free and sum(self._retries) >= max(self._least, int(self._share * sum(self._requests))):
            return False
        self._retries[slot] += 1
        return True

    def _slot(self) -> int:
        """Return the index of the present second, and clear the seconds that have left the window."""
        now = int(self._clock())
        for second in range(max(self._second + 1, now - SECONDS + 1), now + 1):
            self._requests[second % SECONDS] = self._retries[second % SECONDS] = 0
        self._second = max(self._second, now)
        return self._second % SECONDS
