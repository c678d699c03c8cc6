"""The limits of a key."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.limits.key_limits import KeyLimits


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (KeyLimits(), False),
        (KeyLimits(requests_per_minute=5, concurrent_requests=2), False),
        (KeyLimits(tokens_per_minute=1), True),
        (KeyLimits(daily_tokens=1), True),
        (KeyLimits(monthly_tokens=1), True),
        (KeyLimits(daily_cost=0.5), True),
        (KeyLimits(monthly_cost=0.5), True),
    ],
)
def test_limits_of_tokens_and_cost_need_counts(limits: KeyLimits, expected: bool) -> None:
    assert limits.count_tokens is expected


def test_a_price_is_needed_for_budgets_of_cost_only() -> None:
    assert KeyLimits(daily_cost=0.5).has_cost
    assert KeyLimits(monthly_cost=0.5).has_cost
    assert not KeyLimits(daily_tokens=5).has_cost


@pytest.mark.parametrize("name", ["requests_per_minute", "concurrent_requests", "daily_tokens", "monthly_cost"])
def test_one_limit_is_enough_to_be_checked(name: str) -> None:
    assert KeyLimits(**{name: 1})
    assert not KeyLimits()


def test_a_budget_below_the_smallest_cost_is_a_budget() -> None:
    ((name, _, limit, _),) = KeyLimits(daily_cost=1e-12).budgets
    assert (name, limit) == ("daily_cost", 0)
