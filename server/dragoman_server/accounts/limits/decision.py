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


Bucket = tuple[int, int]
"""A level in `SCALE` units, and the time in milliseconds at which it was computed. A debt is a negative level."""
Budget = tuple[str, int]
"""A period and its sum."""


@dataclass(slots=True)
class KeyState:
    """The state of one key's limits by their names, without its open requests."""

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
    for (level, _), (name, limit, amount) in zip(buckets, claim.buckets, strict=True):
        if level < (amount if amount < limit else limit) * SCALE:
            rejected.append(name)
    budgets = [_current(state, part) for part in claim.budgets]
    for (_, spent), (name, _, limit, amount) in zip(budgets, claim.budgets, strict=True):
        if spent + amount > limit:
            rejected.append(name)
    if not rejected:
        is_open += 1
        for index, part in enumerate(claim.buckets):
            level, at = buckets[index]
            state.buckets[part.name] = buckets[index] = level - part.amount * SCALE, at
        for index, wanted in enumerate(claim.budgets):
            period, spent = budgets[index]
            state.budgets[wanted.name] = budgets[index] = period, spent + wanted.amount
    return Outcome(
        tuple(rejected), is_open, tuple([level for level, _ in buckets]), tuple([spent for _, spent in budgets])
    )


def settle(state: KeyState, settlement: Settlement, now: int) -> None:
    """Apply a settlement to the state. The caller removes its lease, and makes sure that it is applied once."""
    for part in settlement.buckets:
        level, at = _filled(state, part, now)
        state.buckets[part.name] = min(level - part.amount * SCALE, part.limit * SCALE), at
    for wanted in settlement.budgets:
        period, spent = _current(state, wanted)
        if period == wanted.period:
            spent = max(0, spent + wanted.amount)
        state.budgets[wanted.name] = period, spent


def _filled(state: KeyState, part: BucketClaim, now: int) -> Bucket:
    """Return the bucket as it is now; a new one is full."""
    _, limit, _ = part
    full = limit * SCALE
    found = state.buckets.get(part.name)
    if found is None:
        return full, now
    level, at = found
    if now > at:
        level, at = level + (now - at) * limit, now
    # A limit that was lowered takes effect at once, too.
    return (level if level < full else full), at


def _current(state: KeyState, wanted: BudgetClaim) -> Budget:
    """Return the budget of the claim's period, or of a later one: clocks of two machines may differ."""
    found = state.budgets.get(wanted.name)
    return (wanted.period, 0) if found is None or wanted.period > found[0] else found
