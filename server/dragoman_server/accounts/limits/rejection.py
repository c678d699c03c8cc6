"""The error for a claim that was rejected."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from dragoman import Dialect, DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.accounts.limits.claim import CONCURRENCY, IN_COST, PER_DAY, Claim, Outcome
from dragoman_server.accounts.limits.decision import SCALE, least_hold
from dragoman_server.accounts.limits.period import calendar
from dragoman_server.accounts.limits.prices import money
from dragoman_server.accounts.limits.rate_headers import RateHeaders

_BUSY = 1
"""Seconds after which a client may try again if too many of its requests are open: when they end is not known."""


def rejection(claim: Claim, outcome: Outcome, client: Dialect, now: float) -> DragomanError:
    """Return the 429 for a rejected claim. Of several limits it names the one that takes the longest."""
    if outcome.at:
        now = outcome.at / 1000  # budgets end by the store's clock
    waits = {name: _seconds(name, claim, outcome, now) for name in outcome.rejected}
    name = max(waits, key=lambda each: waits[each])
    headers = RateHeaders(claim.limits.buckets).write(outcome.levels, client, now)
    headers["retry-after"] = str(waits[name])
    code = "rate_limit_exceeded"
    if any(name == budget for budget, *_ in claim.limits.budgets) and not _is_reserved(name, claim, outcome):
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
    if _is_reserved(name, claim, outcome):
        return _BUSY
    today = calendar(now)
    daily = any(budget == name and span == PER_DAY for budget, span, _, _ in claim.limits.budgets)
    return max(1, ceil((today.next_day if daily else today.next_month) - now))


def _message(name: str, claim: Claim, outcome: Outcome, seconds: int) -> str:
    if name == CONCURRENCY:
        return f"this API key may have {claim.limits.concurrent} requests open at the same time, and has {outcome.open}"
    for bucket, limit, _ in claim.limits.buckets:
        if bucket == name:
            return f"this API key may use {limit} {name} per minute; try again in {seconds} s"
    budget = next(each for each in _budgets(claim, outcome) if each.name == name)
    written, span = budget.written, budget.span
    unit = "" if budget.unit == IN_COST else " tokens"
    state = f"this API key has used {written(budget.spent)}{unit} of {written(budget.limit)} for this {span} (UTC)"
    if budget.is_reserved:
        return (
            f"{state}, its open requests reserve {written(budget.held)}, and the request needs up to"
            f" {written(budget.amount + budget.hold)}; try again when one of them has ended"
        )
    if budget.spent + budget.amount <= budget.limit and not claim.holds_less:
        return (
            f"{state}, and the request needs up to {written(budget.amount + budget.hold)},"
            f" {written(budget.hold)} of them for its longest reply; lower its output limit,"
            f" or try again in the next {span}"
        )
    return f"{state}, and the request needs about {written(budget.amount)}; try again in the next {span}"


class _Budget(NamedTuple):
    """A budget that a claim was checked against: what was used, what others reserve, and what the claim needs."""

    name: str
    span: str
    limit: int
    unit: int
    spent: int
    held: int
    amount: int
    hold: int
    least: int
    """The amount that the claim would have to reserve if no other request reserved anything."""

    @property
    def is_reserved(self) -> bool:
        """True if the claim would fit without the reservations of other requests, which end with them."""
        return self.held > 0 and self.spent + self.amount + self.least <= self.limit

    def written(self, amount: int) -> str:
        """Return an amount for messages."""
        return money(amount) if self.unit == IN_COST else str(amount)


def _budgets(claim: Claim, outcome: Outcome) -> Iterator[_Budget]:
    held = outcome.held or (0,) * len(outcome.spent)
    for (name, span, limit, unit), spent, others in zip(claim.limits.budgets, outcome.spent, held, strict=True):
        hold = claim.holds[unit] if claim.holds else 0
        word, least = "day" if span == PER_DAY else "month", least_hold(claim, unit, 0)
        yield _Budget(name, word, limit, unit, spent, others, claim.amounts[unit], hold, least)


def _is_reserved(name: str, claim: Claim, outcome: Outcome) -> bool:
    """True if a budget rejects a claim only because of what other open requests reserve."""
    return any(each.name == name and each.is_reserved for each in _budgets(claim, outcome))


def no_price(model: str) -> DragomanError:
    """Return the 403 for a model whose cost cannot be counted, of a key with a budget of cost."""
    message = f"this API key has a budget, and the model {model[:100]!a} has no price"
    return DragomanError(
        Failure(FailureKind.PERMISSION, message, 403, code="model_without_price", origin=FailureOrigin.CLIENT)
    )
