"""Token buckets and budgets, by property and by example."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.accounts.limits import decision
from dragoman_server.accounts.limits.claim import Claim, Outcome, Settlement
from dragoman_server.accounts.limits.decision import OTHER_PERIODS, SCALE, KeyState, holds_of
from support.claims import BucketPart, BudgetPart, claim_on, settlement_on


def claim(*parts: BucketPart | BudgetPart, concurrent: int = 0) -> Claim:
    return claim_on(
        "k",
        "lease",
        concurrent,
        tuple(part for part in parts if len(part) == 3),
        tuple(part for part in parts if len(part) != 3),
    )


DAY, NEXT = ("2026-11-22", "2026-11"), ("2026-11-23", "2026-11")


def decide(state: KeyState, claim: Claim, is_open: int, now: int, periods: tuple[str, str] = DAY) -> Outcome:
    return decision.decide(state, claim, is_open, now, periods)


def apply(state: KeyState, settlement: Settlement, now: int, periods: tuple[str, str] = DAY) -> None:
    decision.settle(state, settlement.claim, settlement.changes, now, periods)


ARRIVALS = st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 40)), max_size=60)
"""Milliseconds since the last request, and what it takes."""


@given(limit=st.integers(1, 50), arrivals=ARRIVALS)
def test_in_any_span_a_bucket_grants_at_most_its_limit_and_what_flowed_in(
    limit: int, arrivals: list[tuple[int, int]]
) -> None:
    state, now, granted = KeyState(), 0, []
    for wait, wanted in arrivals:
        now += wait
        amount = min(wanted, limit)
        if not decide(state, claim(("requests", limit, amount)), 0, now).rejected:
            granted.append((now, amount))
    for first, (start, _) in enumerate(granted):
        total = 0
        for moment, amount in granted[first:]:
            total += amount
            assert total * SCALE <= limit * SCALE + (moment - start) * limit


@given(limit=st.integers(1, 50), arrivals=ARRIVALS)
def test_a_client_that_waits_as_it_must_is_granted(limit: int, arrivals: list[tuple[int, int]]) -> None:
    state, now = KeyState(), 0
    for wait, wanted in arrivals:
        now += wait
        request = claim(("tokens", limit, wanted))
        outcome = decide(state, request, 0, now)
        if outcome.rejected:
            missing = min(wanted, limit) * SCALE - outcome.levels[0]
            now += -(-missing // limit)
            assert not decide(state, request, 0, now).rejected


@given(limit=st.integers(1, 50), arrivals=ARRIVALS, used=st.lists(st.integers(0, 200), min_size=60, max_size=60))
def test_over_time_no_more_is_used_than_flows_in(limit: int, arrivals: list[tuple[int, int]], used: list[int]) -> None:
    """Estimates may be wrong; what was used in the end is paid before anything else is granted."""
    state, now, total, last = KeyState(), 0, 0, 0
    for (wait, estimate), actual in zip(arrivals, used, strict=False):
        now += wait
        if decide(state, claim(("tokens", limit, estimate)), 0, now).rejected:
            continue
        # All earlier requests have ended, so their use must fit into a full bucket and what flowed in since.
        assert (total - last) * SCALE <= limit * SCALE + now * limit
        apply(state, settlement_on("k", "lease", True, (("tokens", limit, actual - estimate),)), now)
        total, last = total + actual, actual


@given(
    limit=st.integers(1, 500),
    requests=st.lists(st.tuples(st.integers(1, 100), st.integers(0, 300), st.booleans()), max_size=50),
)
def test_a_budget_is_exceeded_by_no_more_than_was_in_flight(limit: int, requests: list[tuple[int, int, bool]]) -> None:
    """`settled` is False for a request that is still open when the next one comes."""
    state, spent = KeyState(), 0
    in_flight: list[tuple[int, int]] = []
    worst = 0
    for estimate, actual, settled in requests:
        if decide(state, claim(("daily_tokens", "2026-11-22", limit, estimate)), 0, 0).rejected:
            continue
        in_flight.append((estimate, actual))
        worst = max(worst, spent + sum(used for _, used in in_flight))
        # Before this request was admitted, all that had ended fitted into the budget.
        assert spent <= limit
        if settled:
            for reserved, used in in_flight:
                budget = ("daily_tokens", "2026-11-22", limit, used - reserved)
                apply(state, settlement_on("k", "lease", True, (), (budget,)), 0)
                spent += used
            in_flight.clear()
    if state.budgets:
        assert state.budgets["daily_tokens"][1] == spent + sum(reserved for reserved, _ in in_flight)


def test_a_claim_is_granted_whole_or_not_at_all() -> None:
    state = KeyState()
    parts = (("requests", 10, 1), ("daily_tokens", "2026-11-22", 100, 60))
    assert decide(state, claim(*parts), 0, 0).rejected == ()
    outcome = decide(state, claim(*parts), 0, 0)
    assert outcome.rejected == ("daily_tokens",)
    assert outcome.levels == (9 * SCALE,)
    assert outcome.spent == (60,)


def test_all_limits_that_reject_are_named() -> None:
    state = KeyState()
    parts = (("requests", 1, 1), ("tokens", 5, 5), ("daily_tokens", "2026-11-22", 5, 5))
    assert decide(state, claim(*parts, concurrent=1), 0, 0).rejected == ()
    assert decide(state, claim(*parts, concurrent=1), 1, 0).rejected == (
        "concurrent",
        "requests",
        "tokens",
        "daily_tokens",
    )


def test_a_limit_that_just_suffices_does_not_reject() -> None:
    state = KeyState()
    parts = (("tokens", 5, 5), ("daily_tokens", "2026-11-22", 5, 6))
    assert decide(state, claim(*parts), 0, 0).rejected == ("daily_tokens",)
    assert decide(state, claim(("tokens", 5, 5), ("daily_tokens", "2026-11-22", 5, 5)), 0, 0).rejected == ()


def test_a_budget_is_never_below_nothing() -> None:
    state = KeyState()
    assert decide(state, claim(("daily_tokens", "2026-11-22", 10, 4)), 0, 0).rejected == ()
    apply(state, settlement_on("k", "lease", True, (), (("daily_tokens", "2026-11-22", 10, -6),)), 0)
    assert state.budgets == {"daily_tokens": ("2026-11-22", 0, ())}


def test_a_request_above_the_bucket_needs_a_full_one_and_leaves_a_debt() -> None:
    state = KeyState()
    large = claim(("tokens", 60, 600))
    assert decide(state, large, 0, 0).levels == (-540 * SCALE,)
    assert decide(state, large, 0, 9 * 60_000).rejected == ("tokens",)
    assert decide(state, large, 0, 10 * 60_000).rejected == ()


def test_a_lowered_limit_takes_effect_at_once() -> None:
    state = KeyState()
    decide(state, claim(("requests", 100, 1)), 0, 0)
    outcome = decide(state, claim(("requests", 2, 1)), 0, 0)
    assert outcome.levels == (1 * SCALE,)


def test_a_budget_begins_again_with_its_period() -> None:
    state = KeyState()
    request = claim(("daily_tokens", "2026-11-22", 10, 10))
    assert not decide(state, request, 0, 0).rejected
    assert decide(state, request, 0, 0).rejected
    assert not decide(state, request, 0, 0, NEXT).rejected


def test_a_settlement_goes_into_the_period_of_its_claim() -> None:
    state = KeyState()
    request = claim(("daily_tokens", "2026-11-22", 10, 1))
    decide(state, request, 0, 0)
    decide(state, request, 0, 0, NEXT)
    apply(state, settlement_on("k", "l", True, (), (("daily_tokens", "2026-11-22", 10, 8),)), 0, NEXT)
    assert state.budgets["daily_tokens"] == ("2026-11-23", 1, (("2026-11-22", 9),))
    # One that no store has granted has no period of its own.
    apply(state, settlement_on("k", "m", False, (), (("daily_tokens", "2026-11-22", 10, 5),)), 0, NEXT)
    assert state.budgets["daily_tokens"] == ("2026-11-23", 6, (("2026-11-22", 9),))
    # A period that is no longer known is not made again.
    apply(state, settlement_on("k", "l", True, (), (("daily_tokens", "2026-11-01", 10, 8),)), 0, NEXT)
    assert state.budgets["daily_tokens"] == ("2026-11-23", 6, (("2026-11-22", 9),))


def test_each_period_has_a_sum_of_its_own_whatever_the_order_of_clocks() -> None:
    state = KeyState()
    request = claim(("daily_tokens", "2026-11-22", 10, 6))
    ahead = "2027-01-01", "2027-01"
    for periods in (DAY, ahead, NEXT):
        assert not decide(state, request, 0, 0, periods).rejected
    for periods in (DAY, ahead, NEXT, DAY):
        found = decide(state, request, 0, 0, periods)
        assert (found.rejected, found.spent) == (("daily_tokens",), (6,))


def test_the_periods_that_were_used_last_are_kept() -> None:
    state = KeyState()
    request = claim(("daily_tokens", "2026-11-22", 10, 6))
    for number in range(10):
        # A clock that is wrong by another day each time does not displace the sum that is in use.
        wrong = f"2027-01-{number + 1:02}", "2027-01"
        assert not decide(state, request, 0, 0, wrong).rejected
        assert decide(state, request, 0, 0).rejected == (("daily_tokens",) if number else ())
        if number:
            # A rejected request changes nothing, so this one has to be granted to be the last that was used.
            assert not decide(state, claim(("daily_tokens", "2026-11-22", 100, 1)), 0, 0).rejected
    assert len(state.budgets["daily_tokens"][2]) == OTHER_PERIODS


def test_reservations_of_others_and_its_own_reject_a_request() -> None:
    state = KeyState()
    request = claim(("daily_tokens", "2026-11-22", 100, 10, 40))
    first = decide(state, request, 0, 0)
    assert (first.rejected, first.spent, first.held) == ((), (10,), (0,))
    state.hold(holds := holds_of(state, request, DAY))
    assert holds == (("daily_tokens", "2026-11-22", 40),)
    second = decide(state, request, 1, 0)
    assert (second.rejected, second.held) == ((), (40,))
    state.hold(holds)
    third = decide(state, request, 2, 0)
    assert (third.rejected, third.spent, third.held) == (("daily_tokens",), (20,), (80,))
    assert not decide(state, request, 2, 0, NEXT).rejected, "reservations are those of a period"
    state.release(holds)
    state.release(holds)
    assert not decide(state, request, 1, 0).rejected
    assert state.held == {}


def test_the_time_of_a_wrong_clock_does_not_keep_a_bucket_empty() -> None:
    state, request = KeyState(), claim(("requests", 1, 1))
    month = 40 * 86_400_000
    assert not decide(state, request, 0, month).rejected
    assert decide(state, request, 0, month - 60_000).rejected
    assert not decide(state, request, 0, 0).rejected
    assert decide(state, request, 0, 1).rejected
    assert not decide(state, request, 0, 60_000).rejected
    assert not decide(state, request, 0, month).rejected
    apply(state, settlement_on("k", "l", True, (("requests", 1, 1),)), 0)
    assert decide(state, request, 0, 1).rejected


def test_a_clock_that_goes_back_fills_nothing() -> None:
    state = KeyState()
    request = claim(("requests", 1, 1))
    assert not decide(state, request, 0, 60_000).rejected
    assert decide(state, request, 0, 0).rejected
    assert decide(state, request, 0, 60_001).rejected
    assert not decide(state, request, 0, 120_000).rejected


@given(
    limits=st.tuples(st.integers(1, 50), st.integers(1, 100), st.integers(0, 3)),
    arrivals=st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 40), st.integers(0, 4)), max_size=40),
)
def test_a_rejection_takes_nothing(limits: tuple[int, int, int], arrivals: list[tuple[int, int, int]]) -> None:
    state, now = KeyState(), 0
    bucket, budget, concurrent = limits
    for wait, amount, is_open in arrivals:
        now += wait
        request = claim(
            ("tokens", bucket, amount),
            ("daily", "2026-11-22", budget, amount),
            concurrent=concurrent,
        )
        before, periods = deepcopy(state), (f"2026-11-{1 + now // 86_400:02}", "2026-11")
        outcome = decide(state, request, is_open, now, periods)
        if outcome.rejected:
            assert state == before
        else:
            assert (state.buckets["tokens"][0],) == outcome.levels
            assert state.budgets["daily"][:2] == (periods[0], *outcome.spent)
