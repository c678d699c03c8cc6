"""The interface of the stores of runs. One test-suite runs against all of them.

A run belongs to the process that began it, its `host`. Only the host adds events, and it renews a lease as it does. A
run whose lease has ended has lost its host: another process takes it, to end it, or to go on with the response that its
upstream generates. No run is begun again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

LEASE = 6.0
"""Seconds after the last write of its host at which a run has lost it."""
READ_BYTES = 8 * 1024**2
"""Bytes after which a read returns no more events."""
READ_ENTRIES = 64
"""Most entries of one run that a read returns."""


class RunId(NamedTuple):
    """The owner of a run, and the id of its response or of its request."""

    owner: str
    id: str


class Entry(NamedTuple):
    """So many `events` in a row, as SSE frames. The last one has the number `end - 1`."""

    end: int
    events: int
    data: bytes


class NewRun(NamedTuple):
    """A run that begins.

    `head` describes it, `state` is its first one, and `request` is needed to end it without its host. All three are
    opaque to the store, which keeps the run for `ttl` seconds at most. `most` is the number of runs of the owner that
    may be open at a time, with this one; None for any.
    """

    name: RunId
    host: str
    head: bytes
    state: bytes
    request: bytes
    most: int | None
    ttl: float


class Change(NamedTuple):
    """A write of the host of a run. Without anything new, it renews the lease.

    Entries that the store has already are ignored, so that a change can be written again. Events before `first` are
    dropped. `state` replaces the last one; None keeps that. So does `attach`, by which another process goes on with the
    run. A run that has ended is kept for `kept` seconds; None: it goes on.
    """

    name: RunId
    first: int = 0
    entries: Sequence[Entry] = ()
    state: bytes | None = None
    kept: float | None = None
    attach: bytes | None = None


class Marks(NamedTuple):
    """Marks of other processes: that a run be cancelled, and the `reader` that follows it; empty without one.

    A run `is_lost` if the store does not have it: it has lost its data.
    """

    cancelled: bool
    reader: str
    is_lost: bool = False


LOST = Marks(False, "", True)
"""The marks of a run that the store does not have."""


class Run(NamedTuple):
    """A run in a store, without its events, of which the store has those from `first` to `end - 1`."""

    running: bool
    cancelled: bool
    reader: str
    first: int
    end: int
    head: bytes
    state: bytes

    def has(self, number: int) -> bool:
        """True if the events from this one on can be read: they are kept, or still to come."""
        return self.first <= number <= self.end


class LostRun(NamedTuple):
    """A run that has lost its host, and the `request` that it was begun with.

    `attach` is what its host wrote so that another process can go on with it; empty if none can.
    """

    name: RunId
    run: Run
    request: bytes
    attach: bytes = b""


class Position(NamedTuple):
    """Where a reader is: the next event is `number`. It renews the mark of the reader `reader`, if it is the last."""

    name: RunId
    number: int
    reader: str = ""


class Rest(NamedTuple):
    """The events from a position on; the first entry may begin before it. `run` has no head and no state."""

    run: Run
    entries: list[Entry]


class RunStore(Protocol):
    """Runs that processes share. Each method raises StoreError if the store fails."""

    async def open(self) -> None:
        """Open the store."""
        ...

    async def close(self) -> None:
        """Close the store."""
        ...

    async def begin(self, run: NewRun) -> bool:
        """Add a run, in place of what is left of one with its name. Return False if its owner has too many."""
        ...

    async def write(self, host: str, changes: Sequence[Change]) -> list[Marks | None]:
        """Write changes, and renew the leases of the runs. None stands for a run of another host.

        Nothing is written of a run that is not there: it is `LOST`.
        """
        ...

    async def get(self, name: RunId) -> Run | None:
        """Return a run, or None if it is not there."""
        ...

    async def read(self, positions: Sequence[Position]) -> list[Rest | None]:
        """Return what follows each position; None for a run that is not there."""
        ...

    async def cancel(self, name: RunId) -> bool:
        """Set the mark that a run be cancelled. Return False for one that does not run."""
        ...

    async def set_reader(self, name: RunId, reader: str, before: str | None = None) -> None:
        """Set the mark of the last reader, which ends after a lease. With `before`, only that one is replaced."""
        ...

    async def take(self, host: str, most: int) -> list[LostRun]:
        """Give at most so many runs that have lost their host to this one, with a new lease, and return them."""
        ...

    async def release(self, host: str, name: RunId) -> None:
        """End the lease of a run that goes on, if it is this host's. It has no host until another process takes it."""
        ...

    async def remove(self, names: Sequence[RunId]) -> None:
        """Delete runs."""
        ...
