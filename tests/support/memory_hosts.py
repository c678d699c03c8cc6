"""A store of hosts in memory: the plainest form of what the others do, and a store that a test can let fail."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.threads import StoreError
from dragoman_server.proxy.hosts.interface import (
    LEASE,
    LIST_MAX,
    LOST_KEPT,
    ROWS_MAX,
    WATCH,
    Batch,
    FoundReceipt,
    ProcessState,
    Reading,
    StoredReceipt,
    Wanted,
)
from support.stores import Clock


@dataclass
class MemoryHostStore:
    """Keeps receipts for `kept` seconds of `clock`. While `fails` is set, each call raises it."""

    kept: float = 600.0
    most: int = 50_000
    most_bytes: int = 64 * 1024**2
    clock: Clock = field(default_factory=Clock)
    fails: str = ""
    calls: int = 0
    stored: dict[str, tuple[float, StoredReceipt]] = field(default_factory=dict)
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    states: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    open_rows: dict[str, bytes] = field(default_factory=dict)
    asked: dict[str, list[str]] = field(default_factory=dict)
    watched_until: float = 0.0

    def _call(self) -> float:
        self.calls += 1
        if self.fails:
            raise StoreError(self.fails)
        return self.clock()

    async def open(self) -> None:
        """Nothing is to be opened."""

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def write(self, batch: Batch) -> Wanted:
        now = self._call()
        for receipt in batch.receipts:
            self.stored.pop(receipt.id, None)
            self.stored[receipt.id] = now, receipt
        self._drop(now)
        first = self.rows[-1][0] + 1 if self.rows else 1
        self.rows += list(enumerate(batch.rows, first))
        del self.rows[:-ROWS_MAX]
        self.states.pop(batch.process, None)
        self.states[batch.process] = now, batch.state
        if batch.open_rows is not None:
            self.open_rows[batch.process] = batch.open_rows
        self.states = {name: each for name, each in self.states.items() if each[0] > now - LOST_KEPT}
        return Wanted(now < self.watched_until, self.asked.pop(batch.process, []))

    def _drop(self, now: float) -> None:
        def size() -> int:
            return sum(len(each.summary) + len(each.view) for _, each in self.stored.values())

        self.stored = {name: each for name, each in self.stored.items() if each[0] > now - self.kept}
        while len(self.stored) > self.most or size() > self.most_bytes:
            del self.stored[next(iter(self.stored))]

    async def leave(self, process: str) -> None:
        self._call()
        self.states.pop(process, None)

    async def read(self, position: str = "", most: int = 0, *, watch: bool = False) -> Reading:
        now = self._call()
        if watch:
            self.watched_until = now + WATCH
        after = [row for row in self.rows if row[0] > int(position or 0)]
        rows = (after[:most] if position else after[-most:]) if most else []
        states = []
        for name, (seen, state) in self.states.items():
            shown = self.open_rows.get(name, b"") if watch and now - seen < LEASE else b""
            states.append(ProcessState(name, now - seen, state, shown))
        return Reading(str(rows[-1][0]) if rows else position, [data for _, data in rows], states)

    async def receipt(self, request_id: str) -> FoundReceipt | None:
        self._drop(self._call())
        found = self.stored.get(request_id)
        return FoundReceipt(found[1].owner, found[1].view) if found is not None else None

    async def receipts(self, owner: str, most: int) -> list[bytes]:
        self._drop(self._call())
        found = [each.summary for _, each in reversed(self.stored.values()) if each.owner == owner]
        return found[: min(most, LIST_MAX)]

    async def ask(self, process: str, request_id: str) -> None:
        self._call()
        self.asked.setdefault(process, []).append(request_id)
