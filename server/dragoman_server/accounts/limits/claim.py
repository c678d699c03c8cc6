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
KEPT_MS = 25 * 3_600_000
"""Time for which a lease that has expired can still be settled, and for which a repeated settlement is recognised.
A day is less: a clock may jump by one while requests are open."""


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


Holds = tuple[Amounts, bool]
"""The amounts that budgets reserve, and whether less suffices: `Claim.holds` and `Claim.holds_less`."""
NO_HOLDS: Holds = (), False


@dataclass(slots=True)
class Claim:
    """A request's `amounts`, which all limits of its key grant together or not at all.

    `key` is the id of the key, `lease` that of the request. `holds` are the amounts that budgets reserve besides until
    the request has ended; none if it is empty. They are granted whole. With `holds_less`, what is left of a budget
    suffices as long as no other request reserves anything.

    A store that grants the claim sets the rest: `levels` are those of the buckets, `periods` the day and the month by
    the clock of the store, such as `2026-11-22`, `2026-11`. They stay None and empty if the store did not answer and
    requests are admitted without it.
    """

    key: str
    lease: str
    limits: ActiveLimits
    amounts: Amounts
    holds: Amounts = ()
    holds_less: bool = False
    periods: tuple[str, ...] = field(default=(), compare=False)
    levels: Sequence[int] | None = field(default=None, compare=False)

    @property
    def granted(self) -> bool:
        """True if a store has granted it."""
        return self.levels is not None


@dataclass(slots=True)
class Outcome:
    """The result of a claim: the names of the limits that reject it (none: it is granted), and the state after it.

    `levels` and `spent` follow the order of the claim's buckets and budgets, and so does `held`, which is what other
    open requests reserve of the budgets. A level is in `SCALE` units. `at` is the time of the decision by the store's
    clock, in milliseconds.
    """

    rejected: tuple[str, ...]
    open: int
    levels: tuple[int, ...]
    spent: tuple[int, ...]
    held: tuple[int, ...] = field(default=(), compare=False)
    at: int = field(default=0, compare=False)


@dataclass(slots=True)
class Settlement:
    """The end of a request: `changes` are the differences to what the claim has taken, and may be negative.

    `granted` is False if no store granted the claim, because none answered. It is applied once, however often it is
    sent: a granted one by its lease, another one by a mark that the store keeps for `KEPT_MS`. Budgets are those of
    the claim's periods; of a claim without periods, those of the time at which the store applies it.
    """

    claim: Claim
    granted: bool
    changes: Amounts
