"""The queue of settlements: a request ends without waiting for the store, and a store that is away gets them later."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice

from dragoman_server.accounts.limits.claim import Settlement
from dragoman_server.accounts.store.interface import StoreError

QUEUE_MAX = 10_000
"""Most settlements that wait for the store. Further ones replace the oldest."""
BATCH_MAX = 100
"""Most settlements of one call."""


class Settlements:
    """Sends settlements with `send`, in order, as many together as there are.

    If `send` raises StoreError, they stay, and are sent again after `resume`. `dropped` is called for each one that a
    full queue loses.
    """

    def __init__(self, send: Callable[[Sequence[Settlement]], Awaitable[None]], dropped: Callable[[], None]) -> None:
        self._send = send
        self._dropped = dropped
        self._queue: deque[Settlement] = deque()
        self._keys: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self._flushed = asyncio.Event()
        self._flushed.set()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, settlement: Settlement) -> None:
        """Add a settlement to the queue."""
        if len(self._queue) >= QUEUE_MAX:
            self._remove_first()
            self._dropped()
        self._queue.append(settlement)
        self._keys[settlement.claim.key] += 1
        self._flushed.clear()
        self._wake.set()

    def _remove_first(self) -> None:
        key = self._queue.popleft().claim.key
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]

    def holds(self, key: str) -> bool:
        """True if a settlement of this key waits."""
        return key in self._keys

    def first(self) -> list[Settlement]:
        """Return those that are sent next. To send one again changes nothing."""
        return list(islice(self._queue, BATCH_MAX))

    def resume(self) -> None:
        """Send what waits, if there is anything."""
        if self._queue:
            self._wake.set()

    async def flush(self, seconds: float) -> None:
        """Wait until the queue is empty, but at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._flushed.wait()
        except TimeoutError:
            return

    async def run(self) -> None:
        """Send the settlements until this is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._send_all()

    async def _send_all(self) -> None:
        while self._queue:
            batch = self.first()
            try:
                await self._send(batch)
            except StoreError:
                return
            for settlement in batch:
                # A full queue may have dropped some of the batch in the meantime.
                if self._queue and self._queue[0] is settlement:
                    self._remove_first()
        self._flushed.set()
