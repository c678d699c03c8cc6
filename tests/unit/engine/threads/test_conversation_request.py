"""The bodies that create and change a conversation."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import ClientRequestError
from dragoman.threads import Conversation, added_items, conversation_node, conversation_nodes, new_metadata
from support.thread_stores import user

ROOT = conversation_node("k", "conv_1", 0, {})


def test_a_body_may_be_empty() -> None:
    assert (ROOT.input_items(), Conversation([ROOT]).metadata) == ([], {})
    assert conversation_node("k", "conv_1", 0, {"items": None, "metadata": None}) == ROOT
    assert Conversation([ROOT]).after(new_metadata("k", Conversation([ROOT]), "convchange_1", 0, {})).metadata == {}


def test_the_items_of_a_new_conversation_are_a_change_of_it() -> None:
    """So the metadata is read without them."""
    root, change = conversation_nodes("k", "req_1", 5, {"items": [user("x")], "metadata": {"a": "b"}})
    assert (root.id, root.parent, root.input_items()) == ("conv_1", None, [])
    assert (change.id, change.parent, change.input_items()) == ("convitems_1", "conv_1", [user("x")])
    state = Conversation([root, change])
    assert (state.metadata, state.history()) == ({"a": "b"}, [user("x")])
    assert len(conversation_nodes("k", "req_1", 5, {"items": []})) == len(conversation_nodes("k", "req_1", 5, {})) == 1
    with pytest.raises(ClientRequestError, match="expected an array"):
        conversation_nodes("k", "req_1", 5, {"items": {}})


def test_items_are_kept_as_they_are() -> None:
    items = [user("x"), {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"}]
    node = added_items("k", Conversation([ROOT]), "convchange_1", 5, {"items": items})
    assert (node.parent, node.created, node.input_items(), node.output_items()) == ("conv_1", 5, items, [])


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "items", "items: is required"),
        ({"items": {}}, "items", "expected an array"),
        ({"items": [user("x")] * 21}, "items", "at most 20"),
        ({"items": [user("x"), {"type": "nope"}]}, "items[1].type", "items[1].type: an item of type 'nope'"),
    ],
)
def test_items_that_no_request_can_have(body: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        added_items("k", Conversation([ROOT]), "convchange_1", 0, body)
    assert caught.value.failure.param == param
    assert message in caught.value.failure.message
