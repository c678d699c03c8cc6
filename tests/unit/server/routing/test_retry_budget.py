"""The budget's promise: in each window, retries are a share of the requests, or a few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.routing.retry_budget import SECONDS, RetryBudget
from support.manual_clock import ManualClock


def spend(budget: RetryBudget, owner: bytes = b"", *, free: bool = False) -> bool:
    """The result of `spend`, which has nothing to wait for."""
    try:
        budget.spend(owner, free=free).send(None)
    except StopIteration as end:
        return bool(end.value)
    raise AssertionError("it waits")


STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.01, 0.3, 1.0, 4.0, 25.0])), max_size=200)


@given(STEPS, st.sampled_from([0.0, 0.1, 0.2, 1.0]), st.integers(0, 5))
def test_retries_never_exceed_the_share_of_the_requests_in_the_window(
    steps: list[tuple[bool, float]], share: float, least: int
) -> None:
    clock = ManualClock()
    budget = RetryBudget(share, least, clock)
    requests: list[int] = []
    retries: list[int] = []
    for is_request, pause in steps:
        clock.advance(pause)
        now = int(clock())
        if is_request:
            budget.count_request()
            requests.append(now)
        elif spend(budget):
            retries.append(now)
            counted = [sum(second > now - SECONDS for second in kind) for kind in (requests, retries)]
            assert counted[1] <= max(least, share * counted[0])


@given(st.integers(1, 400))
def test_an_outage_costs_a_fifth_at_the_default(count: int) -> None:
    """Each request fails, and would be retried at once."""
    budget = RetryBudget(0.2, 3, ManualClock())
    sent = 0
    for _ in range(count):
        budget.count_request()
        sent += 1 + spend(budget) + spend(budget)
    assert sent <= max(1.2 * count, count + 3)


def test_free_retries_are_granted_and_counted() -> None:
    budget = RetryBudget(0.2, 3, ManualClock())
    assert all(spend(budget, free=True) for _ in range(50))
    assert not spend(budget)


def test_the_window_moves_on() -> None:
    clock = ManualClock()
    budget = RetryBudget(0.2, 1, clock)
    assert spend(budget)
    assert not spend(budget)
    clock.advance(SECONDS - 1)
    assert not spend(budget)
    clock.advance(1)
    assert spend(budget)


def test_new_limits_apply_to_what_was_counted() -> None:
    budget = RetryBudget(0.2, 1, ManualClock())
    assert spend(budget)
    budget.configure(0.2, 2)
    assert spend(budget)
    assert not spend(budget)


def test_each_client_has_its_share_when_another_one_has_used_the_budget_up() -> None:
    clock = ManualClock()
    budget = RetryBudget(0.2, 3, clock)
    for _ in range(100):
        budget.count_request(b"a")
    assert sum(spend(budget, b"a") for _ in range(50)) == 20
    budget.count_request(b"b")
    assert [spend(budget, b"b"), spend(budget, b"b")] == [True, False]
    for _ in range(19):
        budget.count_request(b"b")
    assert sum(spend(budget, b"b") for _ in range(20)) == 3
    clock.advance(SECONDS)
    budget.count_request(b"a")
    assert sum(spend(budget, b"a") for _ in range(9)) == 3


def test_without_a_budget_no_client_has_a_share() -> None:
    budget = RetryBudget(0.0, 0, ManualClock())
    budget.count_request(b"a")
    assert not spend(budget, b"a")
