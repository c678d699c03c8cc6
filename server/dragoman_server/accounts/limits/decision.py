"""The decision on a claim, and its settlement, on the state of one key. `store/redis_scripts.py` has both in Lua.

**Limits per minute** are token buckets, as those of the vendors: a bucket holds at most `limit` and is filled evenly,
by `limit` in a minute. So a client may send a burst of `limit` at once, and at most `limit` + `limit` x t / 60 in any
t seconds. One number and one time are kept, whatever the traffic; a window of single requests would grow with it, and
fixed windows allow twice the limit at their border. A request that is larger than the bucket needs a full one. What it
used in the end is then settled, and may leave a debt, which is paid before anything else is granted.

**Budgets** are sums over a calendar day or month. The estimate of a request is added when it is admitted and corrected
when it has ended, so that requests that run at the same time are counted, and a process that ends without settling has
still paid its estimates. A request belongs to the day on which it was admitted.

**Open requests** are leases that expire unless they are renewed. The stores keep and count them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman_server.accounts.limits.claim import (
    CONCURRENCY,
    BucketClaim,
    BudgetClaim,
    Claim,
    Outcome,
    Settlement,
)

SCALE = 60_000
"""Units of a level in one request or token. In each millisecond a bucket gains `limit` units, a whole number."""


@dataclass(slots=True)
class Bucket:
    """A level in `SCALE` units, and the time in milliseconds at which it was computed. A debt is a negative level."""

    level: int
    at: int


@dataclass(slots=True)
class Budget:
    """The sum of a period."""

    period: str
    spent: int


@dataclass(slots=True)
class KeyState:
    """The state of one key's limits, without its open requests."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)


def decide(state: KeyState, claim: Claim, is_open: int, now: int) -> Outcome:
    """Grant the claim and take its amounts from the state, or reject it and take nothing.

    `is_open` is the number of the key's open requests; the caller adds the lease of a granted claim. `now` is in
    milliseconds.
    """
    rejected = []
    if claim.concurrent and is_open >= claim.concurrent:
        rejected.append(CONCURRENCY)
    buckets = [_filled(state, part, now) for part in claim.buckets]
    for part, bucket in zip(claim.buckets, buckets, strict=True):
        if bucket.level < min(part.amount, part.limit) * SCALE:
            rejected.append(part.name)
    budgets = [_current(state, wanted) for wanted in claim.budgets]
    for wanted, budget in zip(claim.budgets, budgets, strict=True):
        if budget.spent + wanted.amount > wanted.limit:
            rejected.append(wanted.name)
    if not rejected:
        is_open += 1
        for part, bucket in zip(claim.buckets, buckets, strict=True):
            bucket.level -= part.amount * SCALE
            state.buckets[part.name] = bucket
        for wanted, budget in zip(claim.budgets, budgets, strict=True):
            budget.spent += wanted.amount
            state.budgets[wanted.name] = budget
    levels = tuple(bucket.level for bucket in buckets)
    return Outcome(tuple(rejected), is_open, levels, tuple(budget.spent for budget in budgets))


def settle(state: KeyState, settlement: Settlement, now: int) -> None:
    """Apply a settlement to the state. The caller removes its lease, and makes sure that it is applied once."""
    for part in settlement.buckets:
        bucket = _filled(state, part, now)
        bucket.level = min(bucket.level - part.amount * SCALE, part.limit * SCALE)
        state.buckets[part.name] = bucket
    for wanted in settlement.budgets:
        budget = _current(state, wanted)
        if budget.period == wanted.period:
            budget.spent = max(0, budget.spent + wanted.amount)
        state.budgets[wanted.name] = budget


def _filled(state: KeyState, part: BucketClaim, now: int) -> Bucket:
    """Return a copy of the bucket as it is now; a new one is full."""
    full = part.limit * SCALE
    bucket = state.buckets.get(part.name)
    if bucket is None:
        return Bucket(full, now)
    # A limit that was lowered takes effect at once, by the smaller `full`.
    if now > bucket.at:
        return Bucket(min(full, bucket.level + (now - bucket.at) * part.limit), now)
    return Bucket(min(full, bucket.level), bucket.at)


def _current(state: KeyState, wanted: BudgetClaim) -> Budget:
    """Return a copy of the budget of the claim's period, or of a later one: clocks of two machines may differ."""
    budget = state.budgets.get(wanted.name)
    if budget is None or wanted.period > budget.period:
        return Budget(wanted.period, 0)
    return Budget(budget.period, budget.spent)
