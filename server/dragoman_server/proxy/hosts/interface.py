"""The interface of the stores that hosts share. One test-suite runs against all of them.

A process writes its receipts, its rows and its state, all in one call, and gets the requests of others with the reply.
What is stored has bounds in number, in bytes and in time, so that no host can fill the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

LEASE = 10.0
"""Seconds after its last write at which a process counts as lost."""
LOST_KEPT = 600.0
"""Seconds for which a process that was lost is still listed."""
PROCESSES_MAX = 1000
"""Most processes in a store. The ones that were lost first are dropped first."""
WATCH = 10.0
"""Seconds for which processes write their open requests after one has read with `watch`."""
RECEIPTS_MAX = 50_000
"""Most receipts in a store. The oldest are dropped first."""
RECEIPT_BYTES = 64 * 1024**2
"""Most bytes of all receipts in a store."""
LIST_MAX = 100
"""Most receipts of one owner that can be listed."""
ROWS_MAX = 5000
"""Most rows in a store."""


class StoredReceipt(NamedTuple):
    """A receipt, by the id of its request: its `summary` for a list, and all that is shown of it (`view`), as JSON."""

    id: str
    owner: str
    summary: bytes
    view: bytes


class Batch(NamedTuple):
    """The write of one process.

    `state` describes it and renews its lease. `rows` are those of requests that have ended, and `open_rows` is a JSON
    list of those that have not, which replaces the last one; None keeps that.
    """

    process: str
    state: bytes
    receipts: Sequence[StoredReceipt] = ()
    rows: Sequence[bytes] = ()
    open_rows: bytes | None = None


class Wanted(NamedTuple):
    """The wishes of others: the open requests of a process, and the receipts of these `ids` before they have ended."""

    watched: bool
    ids: Sequence[str]


class FoundReceipt(NamedTuple):
    """A receipt that was found."""

    owner: str
    view: bytes


class ProcessState(NamedTuple):
    """A process, `age` seconds after its last write. `open_rows` is empty unless it was read with `watch`."""

    process: str
    age: float
    state: bytes
    open_rows: bytes


class Reading(NamedTuple):
    """The rows after a position, the oldest first, the next position, and all processes."""

    position: str
    rows: Sequence[bytes]
    processes: Sequence[ProcessState]


class HostStore(Protocol):
    """A store that hosts share. Each method raises StoreError if it fails. Times are those of the store's clock."""

    async def open(self) -> None:
        """Make the store usable. A store on another machine need not be reachable yet."""
        ...

    async def close(self) -> None:
        """Release connections and files."""
        ...

    async def write(self, batch: Batch) -> Wanted:
        """Write what a process has. A batch may be written again: receipts with the same id replace each other."""
        ...

    async def leave(self, process: str) -> None:
        """Remove a process that stops, which is then not lost."""
        ...

    async def read(self, position: str = "", most: int = 0, *, watch: bool = False) -> Reading:
        """Return at most so many rows after a position, or the last ones without one, and all processes.

        With `watch`, all processes write their open requests for a while.
        """
        ...

    async def receipt(self, request_id: str) -> FoundReceipt | None:
        """Return a receipt, or None if it is not there."""
        ...

    async def receipts(self, owner: str, most: int) -> list[bytes]:
        """Return the summaries of the last receipts of an owner, at most `LIST_MAX`, the newest first."""
        ...

    async def ask(self, process: str, request_id: str) -> None:
        """Let a process write the receipt of a request that is still open."""
        ...
