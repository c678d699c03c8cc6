"""Nodes, and the items of a path."""

from __future__ import annotations

from dragoman.threads import history
from support.thread_stores import assistant, node, user


def test_the_items_of_a_path_are_in_the_order_of_the_conversation() -> None:
    path = [node("k", "a"), node("k", "b", "a")]
    assert history(path) == [user("a"), assistant("A"), user("b"), assistant("B")]
    assert history([]) == []


def test_the_size_is_that_of_the_texts() -> None:
    one = node("k", "a")
    assert one.size == len(one.input) + len(one.reply)
