"""Claims and settlements for tests, on any limits."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman_server.accounts.limits.claim import ActiveLimits, Claim, Settlement

BucketPart = tuple[str, int, int]
"""`name, limit, amount`."""
BudgetPart = tuple[str, str, int, int]
"""`name, period, limit, amount`."""


def claim_on(
    key: str, lease: str, concurrent: int = 0, buckets: Sequence[BucketPart] = (), budgets: Sequence[BudgetPart] = ()
) -> Claim:
    """A claim on limits that each have a unit and a span of their own."""
    amounts = [part[2] for part in buckets] + [part[3] for part in budgets]
    periods = tuple(period for _, period, _, _ in budgets)
    limits = ActiveLimits(
        concurrent,
        tuple((name, limit, unit) for unit, (name, limit, _) in enumerate(buckets)),
        tuple((name, span, limit, len(buckets) + span) for span, (name, _, limit, _) in enumerate(budgets)),
    )
    return Claim(key, lease, limits, tuple(amounts), periods)


def settlement_on(
    key: str,
    lease: str,
    granted: bool = True,
    buckets: Sequence[BucketPart] = (),
    budgets: Sequence[BudgetPart] = (),
) -> Settlement:
    """A settlement that changes these limits by their amounts."""
    claim = claim_on(key, lease, 0, buckets, budgets)
    return Settlement(claim, granted, claim.amounts)
