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

from dragoman_server.accounts.limits.claim import CONCURRENCY, Amounts, Claim, Outcome

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
    levels = grant(state, claim, is_open, now)
    if levels is None:
        return _rejected(state, claim, is_open, now)
    spent = [state.budgets[name][1] for name, *_ in claim.limits.budgets]
    return Outcome((), is_open + 1, tuple(levels), tuple(spent))


def grant(state: KeyState, claim: Claim, is_open: int, now: int) -> list[int] | None:
    """Take the amounts of the claim, and return the levels of its buckets; None, and take nothing, if it is rejected.

    The arguments are those of `decide`, whose outcome has the reasons of a rejection.
    """
    # Each request runs these lines, so buckets are filled here and in `settle` without calls of a function.
    limits, amounts = claim.limits, claim.amounts
    if limits.concurrent and is_open >= limits.concurrent:
        return None
    buckets, budgets = state.buckets.copy(), state.budgets.copy()
    levels = []
    for name, limit, unit in limits.buckets:
        full = level = limit * SCALE  # a new one is full
        at = now
        if name in buckets:
            level, at = buckets[name]
            if now > at:
                level += (now - at) * limit
                at = now
            if level > full:  # also if the limit was lowered
                level = full
        taken = amounts[unit] * SCALE
        if level < taken and level < full:
            return None
        level -= taken
        buckets[name] = level, at
        levels.append(level)
    for name, span, limit, unit in limits.budgets:
        period, spent = claim.periods[span], amounts[unit]
        if name in budgets:
            current, before = budgets[name]
            if period <= current:  # it may be later than the claim's: clocks of two machines may differ
                period = current
                spent += before
        if spent > limit:
            return None
        budgets[name] = period, spent
    state.buckets, state.budgets = buckets, budgets
    return levels


def _rejected(state: KeyState, claim: Claim, is_open: int, now: int) -> Outcome:
    """Return the outcome of a claim that `grant` does not grant, with all limits that reject it."""
    limits, amounts = claim.limits, claim.amounts
    rejected = [CONCURRENCY] if limits.concurrent and is_open >= limits.concurrent else []
    levels, sums = [], []
    for name, limit, unit in limits.buckets:
        full = limit * SCALE
        level, at = state.buckets.get(name, (full, now))
        level = min(level + max(now - at, 0) * limit, full)
        if level < min(amounts[unit] * SCALE, full):
            rejected.append(name)
        levels.append(level)
    for name, span, limit, unit in limits.budgets:
        current, spent = state.budgets.get(name, ("", 0))
        if claim.periods[span] > current:
            spent = 0
        if spent + amounts[unit] > limit:
            rejected.append(name)
        sums.append(spent)
    return Outcome(tuple(rejected), is_open, tuple(levels), tuple(sums))


def settle(state: KeyState, claim: Claim, changes: Amounts, now: int) -> None:
    """Apply the settlement of a claim to the state.

    The caller removes its lease, and makes sure that it is applied once.
    """
    buckets, budgets = state.buckets, state.budgets
    for name, limit, unit in claim.limits.buckets:
        if change := changes[unit]:
            full = limit * SCALE
            level, at = buckets.get(name) or (full, now)
            if now > at:
                level += (now - at) * limit
                at = now
            if level > full:
                level = full
            level -= change * SCALE
            buckets[name] = level if level < full else full, at
    for name, span, _, unit in claim.limits.budgets:
        if change := changes[unit]:
            period = claim.periods[span]
            current, spent = budgets.get(name) or (period, 0)
            if period > current:
                current, spent = period, 0
            if period == current:
                spent += change
                if spent < 0:
                    spent = 0
            budgets[name] = current, spent
