"""References to stored items."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import ClientRequestError
from dragoman.threads import Node, find_item, find_items, references, response_of, with_items
from dragoman.threads.item_reference import REFERENCES_MAX
from support.thread_stores import user

BASE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("item_id", "response"),
    [
        (f"msg_{BASE}1", f"resp_{BASE}"),
        (f"fc_{BASE}12", f"resp_{BASE}"),
        (f"msg_{BASE}_0", f"resp_{BASE}"),
        (f"msg_{BASE}", None),
        ("msg_1", None),
        ("", None),
        (f"../{BASE}1", None),
    ],
)
def test_the_response_of_an_item(item_id: str, response: str | None) -> None:
    assert response_of(item_id) == response


def test_references_are_found_and_replaced() -> None:
    items: list[Any] = [{"type": "item_reference", "id": "a"}, user("x"), {"id": "b"}, {"id": "c", "type": "message"}]
    payload = {"model": "m", "input": items}
    assert references(payload) == {0: "a", 2: "b"}
    assert references({"input": "text"}) == references({}) == references({"input": []}) == {}
    assert references({"input": [user("x"), 7, None, {"id": "b"}]}) == {3: "b"}
    assert references({"input": [{"type": "message", "role": "user", "content": "x"}] * 3}) == {}
    assert with_items(payload, {0: "a", 2: "b"}, {"a": 1, "b": 2})["input"] == [1, items[1], 2, items[3]]
    assert payload["input"] is items
    with pytest.raises(ClientRequestError) as caught:
        with_items(payload, {0: "a", 2: "b"}, {"a": 1})
    assert caught.value.failure.param == "input[2].id"


def test_items_of_the_input_and_of_the_output() -> None:
    output = {"type": "message", "id": f"msg_{BASE}1", "role": "assistant", "content": []}
    reply = json.dumps({"output": [output]}).encode()
    node = Node("k", f"resp_{BASE}", None, 0, json.dumps([user("x")]).encode(), reply)
    assert find_item(node, f"msg_{BASE}_0") == user("x")
    assert find_item(node, f"msg_{BASE}1") == output
    assert find_item(node, f"msg_{BASE}2") is None
    assert find_items(node, [f"msg_{BASE}_0", f"msg_{BASE}1", f"msg_{BASE}2"]) == {
        f"msg_{BASE}_0": user("x"),
        f"msg_{BASE}1": output,
    }


def test_too_many_references() -> None:
    payload = {"input": [{"id": "a"}] * REFERENCES_MAX}
    assert len(references(payload)) == REFERENCES_MAX
    payload["input"].append({"id": "a"})
    with pytest.raises(ClientRequestError, match="send items themselves") as caught:
        references(payload)
    assert caught.value.failure.param == "input"
