"""The places of a provider: how many requests it may have at once, and the queue of those that wait for a place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Wake = Callable[[], None]


class Slots:
    """Counts the requests at a provider. `limit` is the most at once (0: no limit), `queue` the most that wait."""

    __slots__ = ("_limit", "_queue", "_waiting", "taken")

    def __init__(self, limit: int = 0, queue: int = 0) -> None:
        self._waiting: deque[Wake] = deque()
        self.taken = 0
        """Requests at the provider."""
        self.configure(limit, queue)

    def configure(self, limit: int, queue: int) -> None:
        """Set other limits. Requests that have a place keep it; waiting ones get those that are added."""
        self._limit, self._queue = limit, queue
        self._hand_out()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """True if a request would have to wait."""
        return bool(self._waiting) or bool(self._limit and self.taken >= self._limit)

    @property
    def closed(self) -> bool:
        """True if a request would be refused: there is no place, and none in the queue."""
        return self.full and len(self._waiting) >= self._queue

    def take(self) -> bool:
        """Take a place and return True, or return False if all are taken."""
        if self.full:
            return False
        self.taken += 1
        return True

    def wait(self, wake: Wake) -> bool:
        """Join the queue and return True, or return False if it is full.

        `wake` is called once, with the place taken; until then `withdraw` leaves the queue.
        """
        if len(self._waiting) >= self._queue:
            return False
        self._waiting.append(wake)
        return True

    def withdraw(self, wake: Wake) -> bool:
        """Leave the queue. Returns False if `wake` was called already: then there is a place to `free`."""
        try:
            self._waiting.remove(wake)
        except ValueError:
            return False
        return True

    def free(self) -> None:
        """Give a place back. The first of the queue gets it."""
        self.taken -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and not (self._limit and self.taken >= self._limit):
            self.taken += 1
            self._waiting.popleft()()
