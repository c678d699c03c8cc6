"""The settlement of a claim, by the tokens and the cost that its request used."""

from __future__ import annotations

from dragoman import Usage
from dragoman.wire import Json
from dragoman_server.accounts.limits.claim import ActiveLimits, Amounts, Claim, Settlement


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


# --- responses that upstreams run in the background -------------------------------------------------------------------


def kept_claim(claim: Claim) -> Json:
    """Return a claim as JSON, for a response whose end is read later, in any process."""
    limits = claim.limits
    return {
        "key": claim.key,
        "lease": claim.lease,
        "amounts": claim.amounts,
        "periods": claim.periods,
        "buckets": limits.buckets,
        "budgets": limits.budgets,
        "has_cost": limits.has_cost,
    }


def claim_of_end(kept: Json) -> Claim:
    """Return the claim of which the request has counted the estimates: its end counts the rest, once.

    No store has granted it, so the one that is settled first leaves a mark.
    """
    buckets, budgets = (tuple(tuple(limit) for limit in kept[name]) for name in ("buckets", "budgets"))
    limits = ActiveLimits(0, buckets, budgets, kept["has_cost"])
    claim = Claim(kept["key"], f"{kept['lease']}:end", limits, tuple(kept["amounts"]))
    claim.periods = tuple(kept["periods"])
    return claim


def changes_of_end(claim: Claim, tokens: int, cost: int | None) -> Amounts:
    """Return the changes by which the end of a request differs from its estimates. Without a `cost` that stays."""
    _, claimed_tokens, claimed_cost = claim.amounts
    return 0, tokens - claimed_tokens, 0 if cost is None else cost - claimed_cost
