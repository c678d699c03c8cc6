"""The conversations in memory: the counts stay exact, whatever is removed."""

from __future__ import annotations

from dragoman.threads import ThreadLimits
from dragoman.threads.forest import Forest
from support.thread_stores import node


def test_an_empty_forest_has_no_counts_left() -> None:
    forest = Forest(ThreadLimits(ttl=10.0))
    forest.put(node("k", "a"), 0.0)
    forest.put(node("k", "b", "a"), 1.0)
    forest.put(node("j", "c"), 2.0)
    assert (len(forest), forest.size) == (3, node("k", "a").size + node("k", "b", "a").size + node("j", "c").size)
    assert forest.delete("k", "a", 3.0)
    assert forest.expire(11.0) == 1
    assert forest.expire(12.0) == 1
    assert (len(forest), forest.size, forest._trees, forest._owned, forest._owner_sizes) == (0, 0, {}, {}, {})


def test_an_addition_removes_what_has_expired() -> None:
    forest = Forest(ThreadLimits(ttl=10.0))
    forest.put(node("k", "a"), 0.0)
    forest.put(node("k", "b"), 10.0)
    assert len(forest) == 1


def test_a_client_that_adds_much_removes_its_own() -> None:
    size = node("k", "a0").size
    forest = Forest(ThreadLimits(size=4 * size))
    forest.put(node("j", "b0"), 0.0)
    for number in range(9):
        forest.put(node("k", f"a{number}"), 1.0 + number)
    assert forest.get("j", "b0", 10.0) is not None
    assert [number for number in range(9) if forest.get("k", f"a{number}", 10.0)] == [6, 7, 8]
    # One that has less than its share removes the oldest of all.
    forest.put(node("i", "c0"), 20.0)
    assert forest.get("j", "b0", 20.0) is None
    assert (len(forest), forest.size) == (4, 4 * size)


def test_a_client_with_one_conversation_that_grows_keeps_it() -> None:
    size = node("k", "a").size
    forest = Forest(ThreadLimits(size=3 * size + 100))
    forest.put(node("j", "b"), 0.0)
    for number in range(3):
        forest.put(node("k", f"a{number}", f"a{number - 1}" if number else None), 1.0)
    assert [place for place in ("a0", "a1", "a2") if forest.get("k", place, 2.0)] == ["a0", "a1", "a2"]
    assert forest.get("j", "b", 2.0) is None
