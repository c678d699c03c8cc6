"""The limits of a named key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dragoman.gateway import changed_fields
from dragoman_server.accounts.limits import claim
from dragoman_server.accounts.limits.claim import ActiveLimits, BucketLimit, BudgetLimit
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.limits.rate_headers import RateHeaders
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Range, checked, setting_problems

COST_MAX = 1_000_000
"""Largest budget of cost. Redis computes with 53 bits, which hold a few millions in units of 1e-9."""
COUNT_MAX = 10**10
"""Largest limit of a count, for the same reason."""
DAILY_TOKENS, MONTHLY_TOKENS, DAILY_COST, MONTHLY_COST = "daily_tokens", "monthly_tokens", "daily_cost", "monthly_cost"
"""The names of the budgets."""
_COUNT = Range(0, COUNT_MAX, "no limit")
_COST = Range(0, COST_MAX, "no limit")


@dataclass(frozen=True)
class KeyLimits:
    """The limits of one key; 0 stands for no limit. Days and months are those of UTC."""

    __repr__ = changed_fields

    requests_per_minute: int = checked(0, _COUNT)
    """Requests per minute; 0 = no limit."""
    tokens_per_minute: int = checked(0, _COUNT)
    """Tokens of prompts and replies per minute; 0 = no limit."""
    concurrent_requests: int = checked(0, _COUNT)
    """Requests that are open at the same time; 0 = no limit."""
    daily_tokens: int = checked(0, _COUNT)
    """Tokens of prompts and replies in one day (UTC); 0 = no limit."""
    monthly_tokens: int = checked(0, _COUNT)
    """Tokens of prompts and replies in one month (UTC); 0 = no limit."""
    daily_cost: float = checked(0.0, _COST)
    """Cost in one day (UTC), in the price table's currency; 0 = no limit."""
    monthly_cost: float = checked(0.0, _COST)
    """Cost in one month (UTC), in the price table's currency; 0 = no limit."""

    def problems(self, at: str) -> Iterator[Problem]:
        """Yield the problems of these limits; `at` is their path in the configuration."""
        return setting_problems(at, self)

    def __bool__(self) -> bool:
        """True if one of them is set, even to a value that `problems` names."""
        tokens = self.tokens_per_minute or self.daily_tokens or self.monthly_tokens
        return bool(tokens or self.requests_per_minute or self.concurrent_requests or self.has_cost)

    # Computed once for each key, as a request needs all of them.

    @cached_property
    def active(self) -> ActiveLimits | None:
        """The limits that are set; None if none is."""
        if not self:
            return None
        return ActiveLimits(self.concurrent_requests, self.buckets, self.budgets, self.has_cost)

    @cached_property
    def buckets(self) -> tuple[BucketLimit, ...]:
        """The limits per minute that are set."""
        limits = (
            (claim.REQUESTS, self.requests_per_minute, claim.IN_REQUESTS),
            (claim.TOKENS, self.tokens_per_minute, claim.IN_TOKENS),
        )
        return tuple(each for each in limits if each[1])

    @cached_property
    def rate_headers(self) -> RateHeaders:
        """The headers with the limits per minute, in the forms of the vendors."""
        return RateHeaders(self.buckets)

    @cached_property
    def budgets(self) -> tuple[BudgetLimit, ...]:
        """The budgets that are set."""
        budgets = (
            (DAILY_TOKENS, claim.PER_DAY, self.daily_tokens, claim.IN_TOKENS),
            (MONTHLY_TOKENS, claim.PER_MONTH, self.monthly_tokens, claim.IN_TOKENS),
            (DAILY_COST, claim.PER_DAY, self.daily_cost, claim.IN_COST),
            (MONTHLY_COST, claim.PER_MONTH, self.monthly_cost, claim.IN_COST),
        )
        return tuple(
            (name, span, round(limit * UNITS) if unit == claim.IN_COST else int(limit), unit)
            for name, span, limit, unit in budgets
            if limit
        )

    @cached_property
    def requests(self) -> ActiveLimits | None:
        """The limit of requests per minute, which is that of a request without tokens; None if it is not set."""
        return ActiveLimits(0, self.buckets[:1], ()) if self.requests_per_minute else None

    @cached_property
    def has_cost(self) -> bool:
        """True if a request needs a price."""
        return bool(self.daily_cost or self.monthly_cost)

    @cached_property
    def count_tokens(self) -> bool:
        """True if one of them is a limit of tokens or of cost, so that a request's tokens must be known."""
        return bool(self.tokens_per_minute or self.budgets)


NO_LIMITS = KeyLimits()
