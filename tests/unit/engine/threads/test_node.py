"""Nodes, and the items of a path."""

from __future__ import annotations

from dragoman.threads import Outline, batches, history
from support.thread_stores import assistant, node, user


def test_the_items_of_a_path_are_in_the_order_of_the_conversation() -> None:
    path = [node("k", "a"), node("k", "b", "a")]
    assert history(path) == [user("a"), assistant("A"), user("b"), assistant("B")]
    assert history([]) == []


def test_the_size_is_that_of_the_texts() -> None:
    one = node("k", "a")
    assert one.size == len(one.input) + len(one.reply)


def test_batches_end_at_a_number_of_bytes_or_of_nodes() -> None:
    nodes = [Outline(str(number), "0", None, 0, size) for number, size in enumerate((3, 3, 9, 1, 1, 1, 1))]
    sizes = [[each.size for each in batch] for batch in batches(nodes, 6, 3)]
    assert sizes == [[3, 3], [9], [1, 1, 1], [1]]
    assert [*batches([])] == []
    assert [*batches(nodes)] == [nodes]
