"""The places of a provider: how many requests it may have at once, and the queue of those that wait for a place.

The clients of a queue take turns, and a client that fills it makes room for others.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Final

Wake = Callable[[], None]
NO_LIMIT: Final = 1 << 62
"""A number of places that is never reached."""


class Slots:
    """Counts the requests at a provider. `limit` is the most at once (0: no limit), `queue` the most that wait.

    `owner` identifies a client.
    """

    def __init__(self, limit: int = 0, queue: int = 0) -> None:
        self._waiting: OrderedDict[Hashable, deque[tuple[Wake, Wake | None]]] = OrderedDict()
        """The functions that wake and drop the requests of each client that waits, the next client first."""
        self._dropped: set[Wake] = set()
        """The requests that were dropped and were not withdrawn yet."""
        self.taken = 0
        """Requests at the provider."""
        self.waiting = 0
        """Requests in the queue."""
        self.configure(limit, queue)

    def configure(self, limit: int, queue: int) -> None:
        """Set other limits. Requests that have a place keep it; waiting ones get those that are added."""
        self.allow(limit or NO_LIMIT, queue)

    def allow(self, places: int, queue: int) -> None:
        """Set the number of places, which may be 0, and that of requests that may wait."""
        self.places, self._queue = places, queue
        self._hand_out()

    @property
    def full(self) -> bool:
        """True if a request would have to wait."""
        return bool(self.waiting) or self.taken >= self.places

    @property
    def closed(self) -> bool:
        """True if a request would be refused: there is no place, and none in the queue."""
        return self.is_closed_to(())

    def is_closed_to(self, owner: Hashable) -> bool:
        """True if a request of this client would be rejected."""
        return self.full and self.waiting >= self._queue and not self.makes_room(owner)

    def makes_room(self, owner: Hashable) -> bool:
        """True if another client has so many in the queue that its last request would be dropped for one of `owner`."""
        return self._longest(owner) is not None

    def take(self) -> bool:
        """Take a place and return True, or return False if all are taken."""
        if self.full:
            return False
        self.taken += 1
        return True

    def wait(self, wake: Wake, owner: Hashable = (), drop: Wake | None = None) -> bool:
        """Join the queue and return True, or return False if it is full.

        `wake` is called once, with the place taken; until then `withdraw` leaves the queue. In a full queue the last
        request of the client that has the most makes room for one that has fewer: its `drop` is called instead.
        """
        if self.waiting >= self._queue:
            longest = self._longest(owner)
            if longest is None:
                return False
            self._drop_last(longest)
        self._waiting.setdefault(owner, deque()).append((wake, drop))
        self.waiting += 1
        return True

    def drop(self) -> None:
        """Drop a request of the queue: the last one of the client that has the most, and came last of these."""
        self._drop_last(max(reversed(self._waiting), key=lambda each: len(self._waiting[each])))

    def _drop_last(self, owner: Hashable) -> None:
        own = self._waiting[owner]
        last, dropped = own.pop()
        if not own:
            del self._waiting[owner]
        self.waiting -= 1
        self._dropped.add(last)
        if dropped is not None:
            dropped()

    def _longest(self, owner: Hashable) -> Hashable | None:
        """Return the client whose queue is the longest, if it is longer than that of `owner` would be."""
        if not self._queue or len(self._waiting) - (owner in self._waiting) < 1:
            return None
        longest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        return longest if len(self._waiting[longest]) > len(self._waiting.get(owner, ())) + 1 else None

    def withdraw(self, wake: Wake, owner: Hashable = ()) -> bool:
        """Leave the queue. Return False if `wake` was called already: then there is a place to `free`."""
        if wake in self._dropped:
            self._dropped.remove(wake)
            return True
        own = self._waiting.get(owner, deque())
        found = next((each for each in own if each[0] == wake), None)
        if found is None:
            return False
        own.remove(found)
        self.waiting -= 1
        if not own:
            del self._waiting[owner]
        return True

    def free(self) -> None:
        """Give a place back. The first request of the next client in the queue gets it."""
        self.taken -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and self.taken < self.places:
            owner, own = next(iter(self._waiting.items()))
            wake, _ = own.popleft()
            self.taken += 1
            self.waiting -= 1
            if own:
                self._waiting.move_to_end(owner)
            else:
                del self._waiting[owner]
            wake()
