"""From a key and a request to a claim, and from a claim and the tokens used to a settlement."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman import Usage
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.limits.claim import (
    REQUESTS,
    TOKENS,
    Claim,
    Outcome,
    Settlement,
)
from dragoman_server.accounts.limits.period import calendar
from dragoman_server.accounts.limits.prices import UNITS

DAILY_TOKENS, MONTHLY_TOKENS, DAILY_COST, MONTHLY_COST = "daily_tokens", "monthly_tokens", "daily_cost", "monthly_cost"
_COSTS = frozenset((DAILY_COST, MONTHLY_COST))
"""Budgets of cost; the other ones are of tokens."""


@dataclass(slots=True)
class Admission:
    """An admitted request, until it is settled.

    `estimate` are its tokens as they were claimed. `granted` is False if the store did not answer and requests are
    admitted without it. `outcome` is then None.
    """

    record: KeyRecord
    claim: Claim
    estimate: int
    granted: bool
    outcome: Outcome | None = None


def claim_of(record: KeyRecord, lease: str, tokens: int, cost: int, now: float) -> Claim:
    """Return the claim of a request with an estimate of `tokens` and of `cost` (in `UNITS`), at Unix seconds `now`."""
    limits, today = record.limits, calendar(now)
    buckets = []
    if limits.requests_per_minute:
        buckets.append((REQUESTS, limits.requests_per_minute, 1))
    if limits.tokens_per_minute:
        buckets.append((TOKENS, limits.tokens_per_minute, tokens))
    budgets = []
    if limits.daily_tokens:
        budgets.append((DAILY_TOKENS, today.day, limits.daily_tokens, tokens))
    if limits.monthly_tokens:
        budgets.append((MONTHLY_TOKENS, today.month, limits.monthly_tokens, tokens))
    if limits.daily_cost:
        budgets.append((DAILY_COST, today.day, round(limits.daily_cost * UNITS), cost))
    if limits.monthly_cost:
        budgets.append((MONTHLY_COST, today.month, round(limits.monthly_cost * UNITS), cost))
    return Claim(record.id, lease, limits.concurrent_requests, tuple(buckets), tuple(budgets))


def tokens_of(usage: Usage) -> int:
    """Return the tokens that count: the whole input, also what came from a cache, and the whole output."""
    return (usage.input_total or 0) + (usage.output_total or 0)


def settlement_of(admission: Admission, tokens: int | None, cost: int | None) -> Settlement:
    """Return the settlement of an admitted request that used `tokens` and `cost`. None: the estimate stays.

    If the store did not grant the claim, nothing of it was counted yet, so the whole amounts are. Limits that do not
    change are left out.
    """
    claim, granted = admission.claim, admission.granted
    buckets, budgets = [], []
    for name, limit, estimate in claim.buckets:
        used = tokens if name == TOKENS else None
        change = (estimate if used is None else used) - (estimate if granted else 0)
        if change:
            buckets.append((name, limit, change))
    for name, period, limit, estimate in claim.budgets:
        used = cost if name in _COSTS else tokens
        change = (estimate if used is None else used) - (estimate if granted else 0)
        if change:
            budgets.append((name, period, limit, change))
    return Settlement(claim.key, claim.lease, granted, tuple(buckets), tuple(budgets))


def cancellation_of(claim: Claim) -> Settlement:
    """Return the settlement that takes a whole claim back, of a request that was cancelled while it was checked."""
    return Settlement(
        claim.key,
        claim.lease,
        True,
        tuple((name, limit, -amount) for name, limit, amount in claim.buckets),
        tuple((name, period, limit, -amount) for name, period, limit, amount in claim.budgets),
    )
