"""The store of one process: everything is in memory, and lost when the process ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from dragoman_server.accounts.keys.record import KEYS_MAX, KeyRecord
from dragoman_server.accounts.limits.claim import KEPT_MS, LEASE_MS, Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import Hold, KeyState, decide, holds_of, settle
from dragoman_server.accounts.limits.period import periods_at
from dragoman_server.accounts.store.interface import Lease, Spent, StoredKeys, StoreError, spent_of

STATES_MAX = 2 * KEYS_MAX
"""Most keys whose counters are kept: twice the keys that there can be, as revoked ones are not known here."""
COOLDOWNS_MAX = 10_000
"""Most cooldowns of a store. The oldest is dropped first."""


class _Account:
    """One key's state, with its open requests: lease → the time at which it expires, the earliest first."""

    __slots__ = ("holds", "leases", "next_expiry", "state")

    def __init__(self) -> None:
        self.state = KeyState()
        self.leases: dict[str, int] = {}
        self.holds: dict[str, tuple[Hold, ...]] = {}
        """The reservations of leases that have any."""
        self.next_expiry = 0
        """A time before which no lease expires."""

    def open_at(self, now: int) -> int:
        """Return the number of open requests. Reservations of expired leases end, and old leases are dropped."""
        leases = self.leases
        if now < self.next_expiry:
            return len(leases)
        self.next_expiry = next(iter(leases.values()), now + LEASE_MS)
        if now < self.next_expiry:
            return len(leases)
        expired, dropped = 0, []
        for lease, expires in leases.items():
            if expires > now:
                break
            expired += 1
            self.release(lease)
            if expires <= now - KEPT_MS:
                dropped.append(lease)
        for lease in dropped:
            del leases[lease]
        return len(leases) - (expired - len(dropped))

    def hold(self, lease: str, now: int) -> None:
        """Set the time at which a lease expires, which is later than those of all others."""
        self.leases.pop(lease, None)
        self.leases[lease] = now + LEASE_MS

    def reserve(self, lease: str, holds: tuple[Hold, ...]) -> None:
        """Set the reservations of a lease."""
        self.release(lease)
        if holds:
            self.holds[lease] = holds
            self.state.hold(holds)

    def release(self, lease: str) -> None:
        """End the reservations of a lease."""
        if (holds := self.holds.pop(lease, None)) is not None:
            self.state.release(holds)


class MemoryAccountStore:
    """The store in memory. `clock` returns Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._keys: dict[str, KeyRecord] = {}
        self._version = 0
        self._cooldowns: dict[str, float] = {}
        self._settled: dict[str, int] = {}
        """Leases of settlements that were not granted → the time until which they are kept."""

    async def open(self) -> None:
        """Return at once: memory needs no opening."""

    async def close(self) -> None:
        """Return at once."""

    async def ping(self) -> None:
        """Return at once: memory is always reachable."""

    async def remarks(self) -> Sequence[str]:
        """Return nothing: there is nothing to set."""
        return ()

    async def now(self) -> float:
        """Return the time of this process."""
        return self._clock()

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _account(self, key: str) -> _Account:
        account = self._accounts.pop(key, None) or _Account()
        self._accounts[key] = account  # the least recently used is the first
        if len(self._accounts) > STATES_MAX:
            del self._accounts[next(iter(self._accounts))]
        return account

    async def admit(self, claim: Claim) -> Outcome:
        """Grant a claim or reject it."""
        account, now = self._account(claim.key), self._now()
        periods = periods_at(now)
        outcome = decide(account.state, claim, account.open_at(now), now, periods)
        if not outcome.rejected:
            account.hold(claim.lease, now)
            account.reserve(claim.lease, holds_of(account.state, claim, periods))
        return outcome

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Apply the settlements, each once."""
        for settlement in settlements:
            self.settle_now(settlement)

    def settle_now(self, settlement: Settlement) -> None:
        """Apply a settlement, without a queue: nothing has to be waited for."""
        claim = settlement.claim
        key, lease = claim.key, claim.lease
        account = self._accounts.get(key) or self._account(key)
        now = self._now()
        if settlement.granted:
            first = account.leases.pop(lease, 0) > now - KEPT_MS
            if account.holds:
                account.release(lease)
        else:
            first = self._mark(lease, now)
        if first:
            settle(account.state, claim, settlement.changes, now, periods_at(now))

    def _mark(self, lease: str, now: int) -> bool:
        """Record that a settlement was applied. Return False if it was recorded before."""
        while self._settled and next(iter(self._settled.values())) <= now:  # the first is the oldest
            del self._settled[next(iter(self._settled))]
        if lease in self._settled:
            return False
        self._settled[lease] = now + KEPT_MS
        return True

    async def renew(self, leases: Iterable[Lease]) -> None:
        """Keep the leases from expiring."""
        now = self._now()
        for key, lease in leases:
            account = self._accounts.get(key)
            if account is not None and (expires := account.leases.get(lease, 0)):
                if expires <= now:
                    account.release(lease)  # others may have been granted it
                if expires > now - KEPT_MS:
                    account.hold(lease, now)

    async def spent(self, key: str) -> Sequence[Spent]:
        """Return the budgets of a key."""
        account = self._accounts.get(key)
        return spent_of(account.state, periods_at(self._now())) if account is not None else []

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        """Return all keys, or None if their version is still `known`."""
        return None if known == self._version else StoredKeys(self._version, tuple(self._keys.values()))

    async def put_key(self, record: KeyRecord) -> None:
        """Add a key."""
        if len(self._keys) >= KEYS_MAX and record.id not in self._keys:
            raise StoreError(f"there are {KEYS_MAX} keys already: revoke some")
        self._keys[record.id] = record
        self._version += 1

    async def remove_key(self, key: str) -> bool:
        """Remove a key."""
        if self._keys.pop(key, None) is None:
            return False
        self._version += 1
        return True

    async def cool(self, name: str, seconds: float) -> None:
        """Let a cooldown last for at least `seconds`."""
        until = self._clock() + seconds
        self._cooldowns[name] = max(until, self._cooldowns.pop(name, until))
        if len(self._cooldowns) > COOLDOWNS_MAX:
            del self._cooldowns[next(iter(self._cooldowns))]

    async def cooldowns(self) -> Mapping[str, float]:
        """Return the remaining seconds of the cooldowns."""
        now = self._clock()
        self._cooldowns = {name: until for name, until in self._cooldowns.items() if until > now}
        return {name: until - now for name, until in self._cooldowns.items()}
