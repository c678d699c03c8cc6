"""From a key and a request to a claim, and from a claim and the tokens used to a settlement."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman import Usage
from dragoman_server.accounts.limits.claim import Amounts, Claim, Outcome, Settlement
from dragoman_server.accounts.limits.key_limits import KeyLimits


@dataclass(slots=True)
class Admission:
    """An admitted request, until it is settled.

    `granted` is False if the store did not answer and requests are admitted without it. `outcome` is then None.
    """

    limits: KeyLimits
    claim: Claim
    granted: bool
    outcome: Outcome | None = None


def claim_of(key: str, limits: KeyLimits, lease: str, tokens: int, cost: int, periods: tuple[str, str]) -> Claim:
    """Return the claim of a request with an estimate of `tokens` and of `cost` (in `UNITS`), on a day and in a month.

    `key` is the id of the key with these limits.
    """
    amounts = 1, tokens, cost
    return Claim(key, lease, limits.concurrent_requests, limits.buckets, limits.budgets, amounts, periods)


def tokens_of(usage: Usage) -> int:
    """Return the tokens that count: the whole input, also what came from a cache, and the whole output."""
    return (usage.input_total or 0) + (usage.output_total or 0)


def settlement_of(admission: Admission, tokens: int | None, cost: int | None) -> Settlement:
    """Return the settlement of an admitted request that used `tokens` and `cost`, as `changes_of` has them."""
    return Settlement(admission.claim, admission.granted, changes_of(admission, tokens, cost))


def changes_of(admission: Admission, tokens: int | None, cost: int | None) -> Amounts:
    """Return the changes that settle an admitted request which used `tokens` and `cost`. None: the estimate stays.

    If the store did not grant the claim, nothing of it was counted yet, so the whole amounts are.
    """
    requests, claimed_tokens, claimed_cost = admission.claim.amounts
    if tokens is None:
        tokens = claimed_tokens
    if cost is None:
        cost = claimed_cost
    if not admission.granted:
        return requests, tokens, cost
    return 0, tokens - claimed_tokens, cost - claimed_cost


def cancellation_of(claim: Claim) -> Settlement:
    """Return the settlement that takes a whole claim back, of a request that was cancelled while it was checked."""
    return Settlement(claim, True, tuple([-amount for amount in claim.amounts]))
