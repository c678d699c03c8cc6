"""Claims and settlements of a key's requests."""

from __future__ import annotations

from dataclasses import replace

from dragoman import Usage
from dragoman.wire import json_dumps, json_loads
from dragoman_server.accounts.limits.claim import Claim, Settlement
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.limits.settlement import (
    cancellation_of,
    changes_of_end,
    claim_of_end,
    kept_claim,
    settlement_of,
    tokens_of,
)
from support.named_keys import made

_, RECORD = made(
    requests_per_minute=60,
    tokens_per_minute=1000,
    concurrent_requests=4,
    daily_tokens=10,
    monthly_tokens=20,
    daily_cost=1.5,
    monthly_cost=30.0,
)
LIMITS = RECORD.limits.active
assert LIMITS is not None
CLAIM = Claim(RECORD.id, "1", LIMITS, (1, 7, 9), periods=("2026-11-22", "2026-11"))
GRANTED = replace(CLAIM, levels=(0, 0))


def test_a_claim_has_all_limits_and_the_amounts_of_the_request() -> None:
    assert CLAIM.limits.concurrent == 4
    assert [(name, limit, CLAIM.amounts[unit]) for name, limit, unit in CLAIM.limits.buckets] == [
        ("requests", 60, 1),
        ("tokens", 1000, 7),
    ]
    assert [
        (name, CLAIM.periods[span], limit, CLAIM.amounts[unit]) for name, span, limit, unit in CLAIM.limits.budgets
    ] == [
        ("daily_tokens", "2026-11-22", 10, 7),
        ("monthly_tokens", "2026-11", 20, 7),
        ("daily_cost", "2026-11-22", 3 * UNITS // 2, 9),
        ("monthly_cost", "2026-11", 30 * UNITS, 9),
    ]


def test_a_settlement_has_the_differences() -> None:
    found = settlement_of(GRANTED, 12, 5)
    assert found == Settlement(GRANTED, True, (0, 5, -4))


def test_a_settlement_without_counts_changes_nothing() -> None:
    found = settlement_of(GRANTED, None, None)
    assert found == Settlement(GRANTED, True, (0, 0, 0))


def test_the_settlement_of_a_claim_that_was_never_granted_has_the_whole_amounts() -> None:
    found = settlement_of(CLAIM, 12, None)
    assert found == Settlement(CLAIM, False, (1, 12, 9))


def test_a_cancellation_takes_everything_back() -> None:
    assert cancellation_of(CLAIM) == Settlement(CLAIM, True, (-1, -7, -9))


def test_tokens_are_those_of_prompt_and_reply() -> None:
    assert tokens_of(Usage(100, 40, 10, 50, 20)) == 150
    assert tokens_of(Usage()) == 0


def test_the_end_of_a_response_that_runs_on_counts_the_rest_in_any_process() -> None:
    claim = claim_of_end(json_loads(json_dumps(kept_claim(GRANTED))))
    assert (claim.key, claim.lease, claim.periods) == (CLAIM.key, "1:end", CLAIM.periods)
    assert claim.limits == replace(CLAIM.limits, concurrent=0)
    assert not claim.granted
    assert changes_of_end(claim, 10, 5) == (0, 3, -4)
    assert changes_of_end(claim, 10, None) == (0, 3, 0)
