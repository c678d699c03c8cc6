"""Pages of the items that a response was made from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import ClientRequestError
from dragoman.threads import ItemPage, Node, input_items, page_of
from support.thread_stores import assistant, user


def path() -> list[Node]:
    def node(name: str, *items: Any) -> Node:
        reply = {"output": [assistant(f"out-{name}")]}
        return Node("k", f"resp_{name}", None, 0, json.dumps(items).encode(), json.dumps(reply).encode())

    output = {"type": "function_call_output", "call_id": "c", "output": "x", "id": "of the client"}
    return [node("a", user("1"), {"role": "assistant", "content": "2"}), node("b", output, user("3"))]


def test_all_items_before_and_the_own_input_newest_first() -> None:
    page = page_of(input_items(path()), ItemPage())
    assert [item["id"] for item in page["data"]] == ["msg_b_1", "fco_b_0", "msg_out-a", "msg_a_1", "msg_a_0"]
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("msg_b_1", "msg_a_0", False)
    oldest = page["data"][-1]
    assert oldest["content"] == [{"type": "input_text", "text": "1"}]
    assert page["data"][3]["content"] == [{"type": "output_text", "text": "2", "annotations": []}]
    assert all(item["type"] for item in page["data"])


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_the_pages_together_are_the_list(order: str, limit: int) -> None:
    whole = page_of(input_items(path()), ItemPage(100, order))["data"]
    found: list[Any] = []
    after = None
    while True:
        page = page_of(input_items(path()), ItemPage(limit, order, after))
        assert 0 < len(page["data"]) <= limit
        found += page["data"]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert found == whole


def test_after_the_last_item_there_is_an_empty_page() -> None:
    page = page_of(input_items(path()), ItemPage(after="msg_a_0"))
    assert page == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_an_item_that_is_not_in_the_list() -> None:
    with pytest.raises(ClientRequestError, match="no item of this id"):
        page_of(input_items(path()), ItemPage(after="msg_x"))


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"limit": "²"}, {"order": "up"}])
def test_a_query_that_is_wrong(query: dict[str, str]) -> None:
    with pytest.raises(ClientRequestError):
        ItemPage.read(query)


def test_a_query() -> None:
    assert ItemPage.read({}) == ItemPage(20, "desc", None)
    assert ItemPage.read({"limit": "3", "order": "asc", "after": "x"}) == ItemPage(3, "asc", "x")
