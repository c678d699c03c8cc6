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
