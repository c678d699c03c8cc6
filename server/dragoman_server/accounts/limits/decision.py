"""The decision on a claim, and its settlement, on the state of one key. `store/redis_scripts.py` has both in Lua.

**Limits per minute** are token buckets, as those of the vendors: a bucket holds at most `limit` and is filled evenly,
by `limit` in a minute. So a client may send a burst of `limit` at once, and at most `limit` + `limit` x t / 60 in any
t seconds. One number and one time are kept, whatever the traffic; a window of single requests would grow with it, and
fixed windows allow twice the limit at their border. A request that is larger than the bucket needs a full one. What it
used in the end is then settled, and may leave a debt, which is paid before anything else is granted.

**Budgets** are sums over a calendar day or month. The estimate of a request is added when it is admitted and corrected
when it has ended, so that requests that run at the same time are counted, and a process that ends without settling has
still paid its estimates. A request belongs to the day on which it was admitted, by the store's clock. Each period has a
sum of its own, and the last four that were used are kept: a clock that was wrong counts in the periods that it named,
and once it is right again, the sums of the right ones are as they were.

**Reservations** are what an open request may still use of a budget, such as its longest reply. They are no part of the
sum, and end with the request or with its lease.

**Open requests** are leases that expire unless they are renewed. The stores keep and count them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman_server.accounts.limits.claim import CONCURRENCY, Amounts, Claim, Outcome

SCALE = 60_000
"""Units of a level in one request or token. In each millisecond a bucket gains `limit` units, a whole number."""
AHEAD_MS = 60_000
"""Milliseconds by which the time of a bucket may be ahead. A later one is a wrong clock's: the bucket counts as new, as
it would else be filled only once that time has come."""
OTHER_PERIODS = 3
"""Most periods of a budget that are kept besides the one that was used last."""

Bucket = tuple[int, int]
"""A level in `SCALE` units, and the time in milliseconds at which it was computed. A debt is a negative level."""
Sum = tuple[str, int]
"""A period and what was used in it."""
Budget = tuple[str, int, tuple[Sum, ...]]
"""The period that was used last, its sum, and the sums of others, the last used first."""
Hold = tuple[str, str, int]
"""A reservation: the name of a budget, a period, and an amount."""


@dataclass(slots=True)
class KeyState:
    """The state of one key's limits by their names, without its open requests."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    """The sums of the reservations of open requests, by the name of a budget and a period."""

    def hold(self, holds: Sequence[Hold]) -> None:
        """Add reservations."""
        for name, period, amount in holds:
            self.held[name, period] = self.held.get((name, period), 0) + amount

    def release(self, holds: Sequence[Hold]) -> None:
        """Take reservations back."""
        for name, period, amount in holds:
            left = self.held.pop((name, period), 0) - amount
            if left > 0:
                self.held[name, period] = left


def decide(state: KeyState, claim: Claim, is_open: int, now: int, periods: tuple[str, ...]) -> Outcome:
    """Grant the claim and take its amounts from the state, or reject it and take nothing.

    `is_open` is the number of the key's open requests; the caller adds the lease of a granted claim, and its
    reservations. `now` is in milliseconds, `periods` are the day and the month then.
    """
    limits, amounts = claim.limits, claim.amounts
    rejected = [CONCURRENCY] if limits.concurrent and is_open >= limits.concurrent else []
    buckets, budgets, held = [], [], []
    for name, limit, unit in limits.buckets:
        level, at = _filled(state.buckets.get(name), limit, now)
        taken = amounts[unit] * SCALE
        if level < taken and level < limit * SCALE:
            rejected.append(name)
        buckets.append((name, level, taken, at))
    for name, span, limit, unit in limits.budgets:
        period = periods[span]
        _, spent, others = _in_period(state.budgets.get(name), period)
        reserved = state.held.get((name, period), 0)
        if spent + amounts[unit] + reserved + least_hold(claim, unit, reserved) > limit:
            rejected.append(name)
        held.append(reserved)
        budgets.append((name, period, spent, amounts[unit], others))
    if rejected:
        levels, sums = tuple([level for _, level, *_ in buckets]), tuple([spent for *_, spent, _, _ in budgets])
        return Outcome(tuple(rejected), is_open, levels, sums, tuple(held), now)
    for name, level, taken, at in buckets:
        state.buckets[name] = level - taken, at
    for name, period, spent, amount, others in budgets:
        state.budgets[name] = period, spent + amount, others
    levels = tuple([level - taken for _, level, taken, _ in buckets])
    sums = tuple([spent + amount for *_, spent, amount, _ in budgets])
    return Outcome((), is_open + 1, levels, sums, tuple(held), now)


def _filled(bucket: Bucket | None, limit: int, now: int) -> Bucket:
    """Return a bucket as it is now. A new one is full, and so is one whose time is that of a wrong clock."""
    full = limit * SCALE
    if bucket is None or bucket[1] - now > AHEAD_MS:
        return full, now
    level, at = bucket
    # `full` is the most also if the limit was lowered.
    return min(level + max(now - at, 0) * limit, full), max(at, now)


def least_hold(claim: Claim, unit: int, held: int) -> int:
    """Return what a claim must be able to reserve of a budget in this unit, of which others reserve `held`."""
    if not claim.holds:
        return 0
    hold = claim.holds[unit]
    return 1 if hold and claim.holds_less and not held else hold


def holds_of(state: KeyState, claim: Claim, periods: tuple[str, ...]) -> tuple[Hold, ...]:
    """Return the reservations of a claim that is granted in these periods: not more than is left."""
    holds, found = claim.holds, []
    if not holds:
        return ()
    for name, span, limit, unit in claim.limits.budgets:
        period = periods[span]
        left = limit - state.budgets[name][1] - state.held.get((name, period), 0)
        if (hold := min(holds[unit], left)) > 0:
            found.append((name, period, hold))
    return tuple(found)


def _in_period(budget: Budget | None, period: str) -> Budget:
    """Return a budget with the sum of this period in front."""
    if budget is None:
        return period, 0, ()
    if budget[0] == period:
        return budget
    current, spent, others = budget
    found, kept = 0, [(current, spent)]
    for other in others:
        if other[0] == period:
            found = other[1]
        elif len(kept) < OTHER_PERIODS:
            kept.append(other)
    return period, found, tuple(kept)


def settle(state: KeyState, claim: Claim, changes: Amounts, now: int, periods: tuple[str, ...]) -> None:
    """Apply the settlement of a claim to the state.

    The caller removes its lease and its reservations, and makes sure that it is applied once. `now` is in
    milliseconds, `periods` are the day and the month then.
    """
    buckets, budgets = state.buckets, state.budgets
    for name, limit, unit in claim.limits.buckets:
        if change := changes[unit]:
            level, at = _filled(buckets.get(name), limit, now)
            buckets[name] = min(level - change * SCALE, limit * SCALE), at
    for name, span, _, unit in claim.limits.budgets:
        if change := changes[unit]:
            budget = budgets.get(name)
            if not claim.periods:
                budget = _in_period(budget, periods[span])
            if budget is not None:
                budgets[name] = _changed(budget, claim.periods[span] if claim.periods else periods[span], change)


def _changed(budget: Budget, period: str, change: int) -> Budget:
    """Return a budget with the sum of a period changed, but not below 0. A period that is not kept is left out."""
    current, spent, others = budget
    if period == current:
        spent += change
        return current, spent if spent > 0 else 0, others
    changed = [(each, max(total + change, 0) if each == period else total) for each, total in others]
    return current, spent, tuple(changed)
