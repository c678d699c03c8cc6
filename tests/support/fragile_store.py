"""A store of limits and keys that fails as a test wants, and the accounts of a gateway over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dragoman_server.accounts.accounts import Accounts
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.claim import Claim, Outcome, Settlement
from dragoman_server.accounts.store.interface import StoredKeys, StoreError
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.observability.metric_families import Totals

REDIS = StoreOptions("redis", url="redis://127.0.0.1:1/0", refresh=0.02)


class Fragile:
    """A store in memory that can be away, or answer after it has done its work and the caller has given up."""

    def __init__(self) -> None:
        memory = self._memory = MemoryAccountStore()
        self.open, self.close = memory.open, memory.close
        self.spent, self.put_key, self.remove_key = memory.spent, memory.put_key, memory.remove_key
        self.cool, self.cooldowns, self.now = memory.cool, memory.cooldowns, memory.now
        self.remarks = memory.remarks
        self.away = False
        self.late = False
        self.gate: asyncio.Event | None = None
        self.renewed: list[str] = []

    def _check(self) -> None:
        if self.away:
            raise StoreError("away")

    async def ping(self) -> None:
        self._check()

    async def admit(self, claim: Claim) -> Outcome:
        self._check()
        outcome = await self._memory.admit(claim)
        if self.gate is not None:
            await self.gate.wait()
        if self.late:
            raise StoreError("late")
        return outcome

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        self._check()
        await self._memory.settle(settlements)

    async def renew(self, leases: Any) -> None:
        self._check()
        self.renewed += [lease for _, lease in leases]

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        self._check()
        return await self._memory.keys(known)


@asynccontextmanager
async def opened(
    store: Fragile, *records: KeyRecord, options: StoreOptions = REDIS
) -> AsyncIterator[tuple[Accounts, Totals]]:
    totals = Totals()
    accounts = Accounts(records, options, totals=totals, store=store)
    await accounts.open()
    try:
        yield accounts, totals
    finally:
        await accounts.close()
