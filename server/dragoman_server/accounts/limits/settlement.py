"""The settlement of a claim, by the tokens and the cost that its request used."""

from __future__ import annotations

from dragoman import Usage
from dragoman_server.accounts.limits.claim import Amounts, Claim, Settlement


def tokens_of(usage: Usage) -> int:
    """Return the tokens that count: the whole input, also what came from a cache, and the whole output."""
    return (usage.input_total or 0) + (usage.output_total or 0)


def settlement_of(claim: Claim, tokens: int | None, cost: int | None) -> Settlement:
    """Return the settlement of an admitted request that used `tokens` and `cost`, as `changes_of` has them."""
    return Settlement(claim, claim.granted, changes_of(claim, tokens, cost))


def changes_of(claim: Claim, tokens: int | None, cost: int | None) -> Amounts:
    """Return the changes that settle an admitted request which used `tokens` and `cost`. None: the estimate stays.

    If the store did not grant the claim, nothing of it was counted yet, so the whole amounts are.
    """
    requests, claimed_tokens, claimed_cost = claim.amounts
    if tokens is None:
        tokens = claimed_tokens
    if cost is None:
        cost = claimed_cost
    if not claim.granted:
        return requests, tokens, cost
    return 0, tokens - claimed_tokens, cost - claimed_cost


def cancellation_of(claim: Claim) -> Settlement:
    """Return the settlement that takes a whole claim back, of a request that was cancelled while it was checked."""
    return Settlement(claim, True, tuple([-amount for amount in claim.amounts]))
