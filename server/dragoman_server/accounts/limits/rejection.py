"""The error for a claim that was rejected."""

from __future__ import annotations

from math import ceil

from dragoman import Dialect, DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.accounts.limits.claim import (
    CONCURRENCY,
    IN_COST,
    PER_DAY,
    Claim,
    Outcome,
)
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.period import calendar
from dragoman_server.accounts.limits.prices import money
from dragoman_server.accounts.limits.rate_headers import RateHeaders

_BUSY = 1
"""Seconds after which a client may try again if too many of its requests are open: when they end is not known."""


def rejection(claim: Claim, outcome: Outcome, client: Dialect, now: float) -> DragomanError:
    """Return the 429 for a rejected claim. Of several limits it names the one that takes the longest."""
    waits = {name: _seconds(name, claim, outcome, now) for name in outcome.rejected}
    name = max(waits, key=lambda each: waits[each])
    headers = RateHeaders(claim.limits.buckets).write(outcome.levels, client, now)
    headers["retry-after"] = str(waits[name])
    code = "rate_limit_exceeded"
    if any(name == budget for budget, *_ in claim.limits.budgets):
        # The code at which OpenAI's clients give up. A retry within their patience cannot succeed.
        code = "insufficient_quota"
        headers["x-should-retry"] = "false"
    message = _message(name, claim, outcome, waits[name])
    failure = Failure(FailureKind.RATE_LIMIT, message, 429, code=code, headers=headers, origin=FailureOrigin.CLIENT)
    failure.reason = name
    return DragomanError(failure)


def _seconds(name: str, claim: Claim, outcome: Outcome, now: float) -> int:
    """Return the whole seconds until a limit can grant the claim, at least 1."""
    if name == CONCURRENCY:
        return _BUSY
    for (bucket, limit, unit), level in zip(claim.limits.buckets, outcome.levels, strict=True):
        if bucket == name:
            return max(1, ceil((min(claim.amounts[unit], limit) * SCALE - level) / limit / 1000))
    today = calendar(now)
    daily = any(budget == name and span == PER_DAY for budget, span, _, _ in claim.limits.budgets)
    return max(1, ceil((today.next_day if daily else today.next_month) - now))


def _message(name: str, claim: Claim, outcome: Outcome, seconds: int) -> str:
    if name == CONCURRENCY:
        return f"this API key may have {claim.limits.concurrent} requests open at the same time, and has {outcome.open}"
    for bucket, limit, _ in claim.limits.buckets:
        if bucket == name:
            return f"this API key may use {limit} {name} per minute; try again in {seconds} s"
    (_, span, limit, unit), spent = next(
        pair for pair in zip(claim.limits.budgets, outcome.spent, strict=True) if pair[0][0] == name
    )
    return _budget_message("day" if span == PER_DAY else "month", limit, unit, claim.amounts[unit], spent)


def _budget_message(span: str, limit: int, unit: int, amount: int, spent: int) -> str:
    if unit == IN_COST:
        used, most, needed = money(spent), money(limit), money(amount)
    else:
        used, most, needed = f"{spent} tokens", str(limit), str(amount)
    state = f"this API key has used {used} of {most} for this {span} (UTC), and the request needs about {needed}"
    return f"{state}; try again in the next {span}"


def no_price(model: str) -> DragomanError:
    """Return the 403 for a model whose cost cannot be counted, of a key with a budget of cost."""
    message = f"this API key has a budget, and the model {model[:100]!a} has no price"
    return DragomanError(
        Failure(FailureKind.PERMISSION, message, 403, code="model_without_price", origin=FailureOrigin.CLIENT)
    )
