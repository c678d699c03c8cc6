"""A request's claim on the limits of its key, the outcome of the check, and the settlement at the request's end.

All amounts are integers, and so are times (milliseconds): the three stores compute with different number types, and
must come to the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

REQUESTS, TOKENS, CONCURRENCY = "requests", "tokens", "concurrent"
"""Names of the limits per minute and of the limit of open requests."""

LEASE_MS = 60_000
"""Time after which an open request that is no longer renewed does not count: its process has ended without a word."""
KEPT_MS = 3_600_000
"""Time for which a lease that has expired can still be settled, and for which a repeated settlement is recognised."""


IN_REQUESTS, IN_TOKENS, IN_COST = range(3)
"""The units of limits: places in `Amounts`."""
Amounts = tuple[int, ...]
"""A number of requests, a number of tokens, and a cost in billionths."""
PER_DAY, PER_MONTH = range(2)
"""The spans of budgets: places in the `periods` of a claim."""
BucketLimit = tuple[str, int, int]
"""`name, limit, unit`: a bucket that holds `limit` and is filled by `limit` in each minute."""
BudgetLimit = tuple[str, int, int, int]
"""`name, span, limit, unit`: a budget for each day or month."""


@dataclass(frozen=True, slots=True)
class ActiveLimits:
    """The limits of a key that are set, in the form in which each request is checked.

    `concurrent` is the number of requests that may be open; 0 for no limit. With `has_cost`, a request needs a price.
    """

    concurrent: int
    buckets: tuple[BucketLimit, ...]
    budgets: tuple[BudgetLimit, ...]
    has_cost: bool = False


@dataclass(slots=True)
class Claim:
    """A request's `amounts`, which all limits of its key grant together or not at all.

    `key` is the id of the key, `lease` that of the request. `periods` are the current day and month, such as
    `2026-11-22`, `2026-11`. `levels` are those of the buckets after a store has granted the claim. They stay None if
    the store did not answer and requests are admitted without it.
    """

    key: str
    lease: str
    limits: ActiveLimits
    amounts: Amounts
    periods: tuple[str, ...]
    levels: Sequence[int] | None = field(default=None, compare=False)

    @property
    def granted(self) -> bool:
        """True if a store has granted it."""
        return self.levels is not None


@dataclass(slots=True)
class Outcome:
    """The result of a claim: the names of the limits that reject it (none: it is granted), and the state after it.

    `levels` and `spent` follow the order of the claim's buckets and budgets. A level is in `SCALE` units.
    """

    rejected: tuple[str, ...]
    open: int
    levels: tuple[int, ...]
    spent: tuple[int, ...]


@dataclass(slots=True)
class Settlement:
    """The end of a request: `changes` are the differences to what the claim has taken, and may be negative.

    `granted` is False if no store granted the claim, because none answered. It is applied once, however often it is
    sent: a granted one by its lease, another one by a mark that the store keeps for `KEPT_MS`.
    """

    claim: Claim
    granted: bool
    changes: Amounts
