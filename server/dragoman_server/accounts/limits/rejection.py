"""The error for a claim that was rejected, and the headers with the remaining limits of a key."""

from __future__ import annotations

from math import ceil

from multidict import istr

from dragoman import Dialect, DragomanError, Failure, FailureKind, FailureOrigin
from dragoman_server.accounts.limits.claim import (
    CONCURRENCY,
    IN_COST,
    PER_DAY,
    REQUESTS,
    TOKENS,
    Claim,
    Outcome,
)
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.period import calendar, rfc3339
from dragoman_server.accounts.limits.prices import money

_FACTS = ("limit", "remaining", "reset")
# aiohttp would convert plain names for each reply.
_OPENAI = {name: tuple(istr(f"x-ratelimit-{fact}-{name}") for fact in _FACTS) for name in (REQUESTS, TOKENS)}
_ANTHROPIC = {name: tuple(istr(f"anthropic-ratelimit-{name}-{fact}") for fact in _FACTS) for name in (REQUESTS, TOKENS)}
_MESSAGES = Dialect.MESSAGES
_BUSY = 1
"""Seconds after which a client may try again if too many of its requests are open: when they end is not known."""


def rejection(claim: Claim, outcome: Outcome, client: Dialect, now: float) -> DragomanError:
    """Return the 429 for a rejected claim. Of several limits it names the one that takes the longest."""
    waits = {name: _seconds(name, claim, outcome, now) for name in outcome.rejected}
    name = max(waits, key=lambda each: waits[each])
    headers = rate_headers(claim, outcome, client, now)
    headers["retry-after"] = str(waits[name])
    code = "rate_limit_exceeded"
    if any(name == budget for budget, *_ in claim.budgets):
        # The code at which OpenAI's clients give up. A retry within their patience cannot succeed.
        code = "insufficient_quota"
        headers["x-should-retry"] = "false"
    message = _message(name, claim, outcome, waits[name])
    return DragomanError(
        Failure(FailureKind.RATE_LIMIT, message, 429, code=code, headers=headers, origin=FailureOrigin.CLIENT)
    )


def _seconds(name: str, claim: Claim, outcome: Outcome, now: float) -> int:
    """Return the whole seconds until a limit can grant the claim, at least 1."""
    if name == CONCURRENCY:
        return _BUSY
    for (bucket, limit, unit), level in zip(claim.buckets, outcome.levels, strict=True):
        if bucket == name:
            return max(1, ceil((min(claim.amounts[unit], limit) * SCALE - level) / limit / 1000))
    today = calendar(now)
    daily = any(budget == name and span == PER_DAY for budget, span, _, _ in claim.budgets)
    return max(1, ceil((today.next_day if daily else today.next_month) - now))


def _message(name: str, claim: Claim, outcome: Outcome, seconds: int) -> str:
    if name == CONCURRENCY:
        return f"this API key may have {claim.concurrent} requests open at the same time, and has {outcome.open}"
    for bucket, limit, _ in claim.buckets:
        if bucket == name:
            return f"this API key may use {limit} {name} per minute; try again in {seconds} s"
    (_, span, limit, unit), spent = next(
        pair for pair in zip(claim.budgets, outcome.spent, strict=True) if pair[0][0] == name
    )
    return _budget_message("day" if span == PER_DAY else "month", limit, unit, claim.amounts[unit], spent)


def _budget_message(span: str, limit: int, unit: int, amount: int, spent: int) -> str:
    if unit == IN_COST:
        used, most, needed = money(spent), money(limit), money(amount)
    else:
        used, most, needed = f"{spent} tokens", str(limit), str(amount)
    state = f"this API key has used {used} of {most} for this {span} (UTC), and the request needs about {needed}"
    return f"{state}; try again in the next {span}"


def rate_headers(claim: Claim, outcome: Outcome, client: Dialect, now: float) -> dict[str, str]:
    """Return the rate limits of the key as the vendor of the client's dialect writes them.

    OpenAI writes the time until a limit is full again as a duration, Anthropic as a time (RFC 3339).
    """
    headers: dict[str, str] = {}
    messages = client is _MESSAGES
    names = _ANTHROPIC if messages else _OPENAI
    for (name, size, _), level in zip(claim.buckets, outcome.levels, strict=True):
        limit, remaining, reset = names[name]
        missing = size * SCALE - level
        headers[limit] = str(size)
        headers[remaining] = str(level // SCALE) if level > 0 else "0"
        headers[reset] = rfc3339(ceil(now + missing / size / 1000)) if messages else _duration(size, missing)
    return headers


def _duration(size: int, missing: int) -> str:
    """Return the time in which a bucket of this size gains `missing` units."""
    millis = -(-missing // size)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    whole = -(-millis // 1000)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def no_price(model: str) -> DragomanError:
    """Return the 403 for a model whose cost cannot be counted, of a key with a budget of cost."""
    message = f"this API key has a budget, and the model {model[:100]!a} has no price"
    return DragomanError(
        Failure(FailureKind.PERMISSION, message, 403, code="model_without_price", origin=FailureOrigin.CLIENT)
    )
