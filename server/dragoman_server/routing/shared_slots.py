"""The places of a provider that several processes share: this process uses those that a store has granted it.

A request that finds no granted place waits for the next answer of the store, which grants places to this process, and
lets some of its requests wait. The others are dropped then, so a request may be in the queue for a moment although
`queue` is 0. `docs/explanation/shared-bounds.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from dragoman_server.routing.slots import NO_LIMIT, Slots, Wake

INTERVAL: Final = 0.1
"""Seconds between two calls of the store while requests wait: a place that another process frees is seen after it."""
_FRESH: Final = 1.0
"""Seconds for which the number of free places is taken for known."""


class PlaceClaim(NamedTuple):
    """The needs of a process at a provider: its requests there (`taken`), and those that wait here.

    `limit` and `queue` are those of its configuration. `has_begun` is True if a request has begun since the last claim.
    """

    provider: str
    limit: int
    queue: int
    taken: int
    waiting: int
    has_begun: bool


class Grant(NamedTuple):
    """The answer to a claim: the requests that a process may have at the provider, and those that may wait here.

    `free` is the number of places that no process has.
    """

    places: int
    queue: int
    free: int


class SharedSlots:
    """The slots of the provider `name`, with the methods of `Slots`.

    `changed` is called when the store should know of a change: with True at once, with False within `INTERVAL`. `clock`
    returns seconds from any origin.
    """

    def __init__(
        self, name: str, limit: int, queue: int, changed: Callable[[bool], None], clock: Callable[[], float]
    ) -> None:
        self._name = name
        self._changed = changed
        self._clock = clock
        self._own = Slots()
        self._share: int | None = None
        """The number of processes that share the bound while the store fails; None if it answers."""
        self._free = 0
        self._seen_at = self._dropped_at = -_FRESH
        self._came = 0
        """Requests that have joined the queue since the last claim."""
        self._has_begun = self._is_claimed = False
        self._own.allow(0, NO_LIMIT)
        self.configure(limit, queue)

    def configure(self, limit: int, queue: int) -> None:
        """Set other limits; 0 stands for no limit of requests, and needs no store."""
        self._limit, self._queue = limit, queue
        if not limit:
            self._own.allow(NO_LIMIT, NO_LIMIT)
        elif self._share is not None:
            self.share(self._share)
        else:
            self._own.allow(min(self._own.places, self._own.taken), NO_LIMIT)
            self._changed(True)

    @property
    def taken(self) -> int:
        """Requests of this process at the provider."""
        return self._own.taken

    @property
    def waiting(self) -> int:
        """Requests that wait in this process."""
        return self._own.waiting

    @property
    def full(self) -> bool:
        """True if a request would have to wait, as far as is known here."""
        own = self._own
        if not own.full:
            return False
        if own.waiting or self._share is not None or own.taken >= self._limit:
            return True
        return self._free <= 0 and self._clock() - self._seen_at < _FRESH

    def is_closed_to(self, owner: Hashable) -> bool:
        """True if a request of this client would be rejected. After a moment the store has to be asked again."""
        if self._share is not None:
            return self._own.is_closed_to(owner)
        was_dropped = self._clock() - self._dropped_at < INTERVAL
        return was_dropped and self._own.full and not self._own.makes_room(owner)

    def take(self) -> bool:
        """Take a place and return True, or return False if all that are granted are taken."""
        if not self._own.take():
            return False
        self._has_begun = True
        return True

    def wait(self, wake: Wake, owner: Hashable = (), drop: Wake | None = None) -> bool:
        """Join the queue and return True, or return False if it is full. See `Slots.wait`."""
        if self.is_closed_to(owner) or not self._own.wait(wake, owner, drop):
            return False
        self._came += 1
        self._changed(True)
        return True

    def withdraw(self, wake: Wake, owner: Hashable = ()) -> bool:
        """Leave the queue. See `Slots.withdraw`."""
        self._changed(False)
        return self._own.withdraw(wake, owner)

    def free(self) -> None:
        """Give a place back. A request that waits here gets it, or another process."""
        before = self._own.taken
        self._own.free()
        is_reused = self._own.taken == before
        self._has_begun |= is_reused
        if self._limit:
            self._changed(not is_reused)

    # --- the store ---------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if requests wait that another process may make room for."""
        return bool(self._limit and self._own.waiting)

    def claim(self) -> PlaceClaim | None:
        """Return what this process needs, or None if it needs nothing and the store knows.

        Places that it does not need are no longer used from now on: the store may grant them to others. A process that
        uses its share of a store that failed claims that share.
        """
        own = self._own
        if self._share is not None and self._limit:
            return PlaceClaim(self._name, self._limit, self._queue, max(own.taken, own.places), 0, False)
        is_needed = bool(self._limit and (own.taken or own.waiting))
        if not is_needed and not self._is_claimed:
            return None
        taken = waiting = 0
        if self._limit:
            taken, waiting = own.taken, own.waiting
            own.allow(min(own.places, taken + waiting), NO_LIMIT)
        claim = PlaceClaim(self._name, self._limit, self._queue, taken, waiting, self._has_begun)
        self._is_claimed, self._has_begun, self._came = is_needed, False, 0
        return claim

    def grant(self, grant: Grant) -> None:
        """Use what the store has granted, and drop the requests that may not wait."""
        self._share = None
        if not self._limit:
            return  # the limit was removed
        own = self._own
        before = own.taken
        own.allow(grant.places, NO_LIMIT)
        self._has_begun |= own.taken > before
        self._free, self._seen_at = grant.free, self._clock()
        for _ in range(own.waiting - self._came - grant.queue):
            self._dropped_at = self._seen_at
            own.drop()

    def share(self, processes: int) -> None:
        """Use this process's share of the bound of so many processes, one place at least: the store does not answer."""
        self._share, self._is_claimed = processes, True  # what the store has is not known
        if self._limit:
            self._own.allow(max(1, self._limit // processes), self._queue // processes)
