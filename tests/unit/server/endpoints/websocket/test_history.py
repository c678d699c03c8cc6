"""The responses of a connection that can be continued, and the bounds on their number and bytes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.endpoints.websocket.history import History, HistoryBudget

NEVER = 10**9


def history(count: int = 100, size: int = NEVER, budget: HistoryBudget | None = None) -> History:
    return History(count, size, budget or HistoryBudget(NEVER), lambda: None)


async def items(kept: History, response_id: str) -> object:
    found = await kept.find(response_id)
    return None if found is None else json.loads(b"[%b]" % found)


async def test_a_response_has_the_items_of_all_before_it() -> None:
    kept = history()
    kept.add("a", None, b"1,2", None)
    kept.add("b", "a", b"", None)
    kept.add("c", "b", b"3", None)
    kept.add("fork", "a", b"9", "x")
    assert await items(kept, "c") == [1, 2, 3]
    assert await items(kept, "fork") == [1, 2, 9]
    assert await items(kept, "b") == [1, 2]
    assert await items(kept, "unknown") is None


async def test_the_oldest_are_dropped_first_and_their_items_stay_while_needed() -> None:
    kept = history(count=2)
    kept.add("a", None, b"1", None)
    kept.add("b", "a", b"2", None)
    kept.add("c", "b", b"3", None)
    assert await items(kept, "a") is None
    assert await items(kept, "c") == [1, 2, 3]
    assert kept.used == 3
    kept.add("new", None, b"4", None)
    kept.add("newer", None, b"5", None)
    assert kept.used == 2


async def test_a_conversation_above_the_bytes_is_not_kept() -> None:
    kept = history(size=5)
    kept.add("a", None, b"1234", None)
    assert await items(kept, "a") == [1234]
    kept.add("b", "a", b"56", None)
    assert len(kept) == kept.used == 0


async def test_what_continues_a_response_that_was_dropped_is_not_kept() -> None:
    kept = history()
    kept.add("b", "gone", b"1", None)
    assert await items(kept, "b") is None


async def test_an_id_that_comes_again_is_the_new_response() -> None:
    kept = history()
    kept.add("same", None, b"1", None)
    kept.add("same", "same", b"2", None)
    assert await items(kept, "same") == [1, 2]
    kept.clear()
    assert kept.used == 0


async def test_a_failed_turn_drops_the_response_of_its_own_lane() -> None:
    kept = history()
    kept.add("a", None, b"1", "lane")
    kept.drop("a", None)
    kept.drop("unknown", "lane")
    assert await items(kept, "a") == [1]
    kept.drop("a", "lane")
    assert await items(kept, "a") is None
    assert kept.used == 0


async def test_above_the_budget_the_history_that_was_not_used_longest_is_dropped() -> None:
    budget, dropped = HistoryBudget(10), []
    one, two, three = (History(9, NEVER, budget, lambda name=name: dropped.append(name)) for name in "123")  # type: ignore[misc]
    one.add("a", None, b"1234", None)
    two.add("a", None, b"1234", None)
    await one.find("a")
    three.add("a", None, b"1234", None)
    assert dropped == ["2"]
    assert await items(two, "a") is None
    assert await items(one, "a") == [1234]
    assert budget.used == 8
    for kept in (one, three):
        kept.clear()
    assert budget.used == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 30)), max_size=40), st.integers(1, 5))
def test_what_is_counted_is_what_is_kept(steps: list[tuple[int, int, int]], count: int) -> None:
    """Whatever is added, forked and dropped, the counts are exact and within the bounds, and fall to 0 at the end."""
    budget = HistoryBudget(150)
    kept = [History(count, 80, budget, lambda: None) for _ in range(2)]
    for number, (name, parent, size) in enumerate(steps):
        one = kept[number % 2]
        one.add(str(name), str(parent) if number % 3 else None, b"x" * size, None)
        if number % 5 == 4:
            one.drop(str(parent), None)
        assert one.used <= 80
        assert len(one) <= count
        assert budget.used == sum(each.used for each in kept) <= 150
    for each in kept:
        each.clear()
        assert each.used == len(each) == 0
    assert budget.used == 0


def test_one_client_does_not_drop_the_histories_of_others() -> None:
    budget, dropped = HistoryBudget(100), list[str]()
    other = History(9, NEVER, budget, lambda: dropped.append("other"), b"other")
    other.add("r", None, b"x" * 30, None)
    for _ in range(50):
        attacker = History(9, NEVER, budget, lambda: dropped.append("attacker"), b"attacker")
        attacker.add("r", None, b"x" * 20, None)
        assert budget.used <= 100
    assert set(dropped) == {"attacker"}
    assert (len(dropped), len(other)) == (47, 1)
