"""The interface of the stores. One test-suite runs against all of them (tests/unit/server/accounts/store)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from dragoman.threads import StoreError as StoreError
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.claim import Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import KeyState


class StoredKeys(NamedTuple):
    """The keys of a store. `version` changes with each of them.

    `whole` is False if the store has lost keys: its version does not come after the known one, or it holds fewer keys
    than were put. A key that was removed is gone in a later version, so it differs from a lost one.
    """

    version: Hashable
    records: Sequence[KeyRecord]
    whole: bool = True


class Lease(NamedTuple):
    """The lease of an open request, by the id of its key."""

    key: str
    lease: str


class Spent(NamedTuple):
    """The sum of one budget, for lists: its name, its period, and the amount in tokens or in units of cost."""

    name: str
    period: str
    amount: int


def spent_of(state: KeyState, periods: tuple[str, str]) -> list[Spent]:
    """Return the sums of the budgets of a key for these periods; of a budget without one, the sum used last."""
    found = []
    for name, (current, amount, others) in sorted(state.budgets.items()):
        sums = {current: amount, **dict(others)}
        period = next((each for each in periods if each in sums), current)
        found.append(Spent(name, period, sums[period]))
    return found


class KeyStore(Protocol):
    """The keys of clients. Each method raises StoreError."""

    async def open(self) -> None:
        """Make the store usable. A store on another machine need not be reachable yet."""
        ...

    async def close(self) -> None:
        """Write what is pending, and release connections and files."""
        ...

    async def keys(self, known: Hashable | None = None) -> StoredKeys | None:
        """Return all keys, or None if their version is still `known`."""
        ...

    async def put_key(self, record: KeyRecord) -> None:
        """Add a key, or replace the one with its id. Raises StoreError if there are `KEYS_MAX` already."""
        ...

    async def remove_key(self, key: str) -> bool:
        """Remove the key with this id. Return False if no key has it.

        Its counters stay: gateways admit its requests for some seconds more.
        """
        ...


class AccountStore(KeyStore, Protocol):
    """Limits, budgets, keys and cooldowns. Each method raises StoreError. Times are those of the store's clock."""

    async def ping(self) -> None:
        """Check that the store works. One on another machine is written to: a replica answers what only reads."""
        ...

    async def remarks(self) -> Sequence[str]:
        """Return warnings about the store's own settings."""
        ...

    async def now(self) -> float:
        """Return the Unix seconds of the store's clock."""
        ...

    async def admit(self, claim: Claim) -> Outcome:
        """Grant a claim or reject it, with all its checks and reservations in one atomic step.

        The periods of budgets are those of the store's clock at that time (`Outcome.at`).
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Apply the settlements, and end the reservations of their claims.

        One that was applied before, or whose lease is unknown, changes nothing.
        """
        ...

    async def renew(self, leases: Iterable[Lease]) -> None:
        """Keep the leases of open requests, and their reservations, from expiring. Settled ones are not restored."""
        ...

    async def spent(self, key: str) -> Sequence[Spent]:
        """Return the budgets of a key, by name: the sums of now, or without any, the last that were used."""
        ...

    async def cool(self, name: str, seconds: float) -> None:
        """Let a cooldown last for at least `seconds` from now. The names are the caller's, such as a provider's."""
        ...

    async def cooldowns(self) -> Mapping[str, float]:
        """Return the remaining seconds of all cooldowns that have not ended."""
        ...
