"""Claims and settlements for tests, on any limits."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman_server.accounts.limits.claim import PER_DAY, PER_MONTH, ActiveLimits, Claim, Settlement

BucketPart = tuple[str, int, int]
"""`name, limit, amount`."""
BudgetPart = tuple[str, str, int, int] | tuple[str, str, int, int, int]
"""`name, period, limit, amount`, and what is reserved. A store has its own period: the form decides the span."""


def claim_on(
    key: str, lease: str, concurrent: int = 0, buckets: Sequence[BucketPart] = (), budgets: Sequence[BudgetPart] = ()
) -> Claim:
    """A claim on limits that each have a unit of their own."""
    amounts = [part[2] for part in buckets] + [part[3] for part in budgets]
    holds = [0 for _ in buckets] + [part[4] if len(part) == 5 else 0 for part in budgets]
    limits = ActiveLimits(
        concurrent,
        tuple((name, limit, unit) for unit, (name, limit, _) in enumerate(buckets)),
        tuple(
            (part[0], PER_MONTH if len(part[1]) == 7 else PER_DAY, part[2], unit)
            for unit, part in enumerate(budgets, len(buckets))
        ),
    )
    return Claim(key, lease, limits, tuple(amounts), tuple(holds) if any(holds) else ())


def settlement_on(
    key: str,
    lease: str,
    granted: bool = True,
    buckets: Sequence[BucketPart] = (),
    budgets: Sequence[BudgetPart] = (),
) -> Settlement:
    """A settlement that changes these limits by their amounts. A granted one belongs to the day of its first budget."""
    claim = claim_on(key, lease, 0, buckets, budgets)
    days = [part[1] for part in budgets if len(part[1]) == 10]
    months = [part[1] for part in budgets if len(part[1]) == 7]
    if granted and budgets:
        claim.periods = days[0] if days else "", months[0] if months else days[0][:7]
    return Settlement(claim, granted, claim.amounts)
