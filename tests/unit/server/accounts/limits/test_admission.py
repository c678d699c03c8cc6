"""Claims and settlements of a key's requests."""

from __future__ import annotations

from datetime import UTC, datetime

from dragoman import Usage
from dragoman_server.accounts.limits.admission import (
    Admission,
    cancellation_of,
    claim_of,
    settlement_of,
    tokens_of,
)
from dragoman_server.accounts.limits.claim import Claim, Settlement
from dragoman_server.accounts.limits.prices import UNITS
from support.named_keys import made

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
_, RECORD = made(
    requests_per_minute=60,
    tokens_per_minute=1000,
    concurrent_requests=4,
    daily_tokens=10,
    monthly_tokens=20,
    daily_cost=1.5,
    monthly_cost=30.0,
)
BUCKETS = (("requests", 60, 1), ("tokens", 1000, 7))
BUDGETS = (
    ("daily_tokens", "2026-11-22", 10, 7),
    ("monthly_tokens", "2026-11", 20, 7),
    ("daily_cost", "2026-11-22", 3 * UNITS // 2, 9),
    ("monthly_cost", "2026-11", 30 * UNITS, 9),
)
CLAIM = Claim(RECORD.id, "1", 4, BUCKETS, BUDGETS)


def test_a_claim_has_a_part_for_each_limit() -> None:
    assert claim_of(RECORD, "1", 7, 9, NOW) == CLAIM
    _, free = made()
    assert claim_of(free, "1", 7, 9, NOW) == Claim(free.id, "1")


def test_a_settlement_has_the_differences() -> None:
    found = settlement_of(Admission(RECORD, CLAIM, 7, granted=True), 12, 5)
    assert found.granted
    assert [(part[0], part[-1]) for part in found.buckets] == [("tokens", 5)]
    assert [part[-1] for part in found.budgets] == [5, 5, -4, -4]


def test_a_settlement_leaves_out_what_stays() -> None:
    found = settlement_of(Admission(RECORD, CLAIM, 7, granted=True), None, None)
    assert found == Settlement(RECORD.id, "1", True)


def test_the_settlement_of_a_claim_that_was_never_granted_has_the_whole_amounts() -> None:
    found = settlement_of(Admission(RECORD, CLAIM, 7, granted=False), 12, None)
    assert not found.granted
    assert [part[-1] for part in found.buckets] == [1, 12]
    assert [part[-1] for part in found.budgets] == [12, 12, 9, 9]


def test_a_cancellation_takes_everything_back() -> None:
    found = cancellation_of(CLAIM)
    assert found == Settlement(RECORD.id, "1", True, found.buckets, found.budgets)
    assert [part[-1] for part in found.buckets] == [-1, -7]
    assert [part[-1] for part in found.budgets] == [-7, -7, -9, -9]


def test_tokens_are_those_of_prompt_and_reply() -> None:
    assert tokens_of(Usage(100, 40, 10, 50, 20)) == 150
    assert tokens_of(Usage()) == 0


def test_a_price_is_needed_for_budgets_of_cost_only() -> None:
    assert RECORD.limits.has_cost
    assert not made(daily_tokens=5)[1].limits.has_cost
