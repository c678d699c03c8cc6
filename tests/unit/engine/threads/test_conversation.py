"""The state of a conversation, from its nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import DragomanError
from dragoman.threads import (
    Change,
    Conversation,
    Node,
    change_id,
    conversation_id,
    conversation_node,
    conversation_not_found,
    deleted_conversation,
    deleted_item,
    is_conversation,
    members,
    new_metadata,
)
from dragoman.threads.conversation import MAY_DELETE, MAY_UPDATE, WITHOUT_ITEMS
from support.thread_stores import assistant, user


def response(name: str, parent: str, *output: Any) -> Node:
    reply = {"object": "response", "output": list(output)}
    return Node("k", f"resp_{name}", parent, 0, json.dumps([user(name)]).encode(), json.dumps(reply).encode())


ROOT = conversation_node("k", "conv_1", 7, {"items": [user("0")], "metadata": {"a": "b"}})


def test_items_have_the_form_of_the_api() -> None:
    state = Conversation([ROOT, response("1", "conv_1", assistant("x"))])
    assert state.as_json() == {"id": "conv_1", "object": "conversation", "created_at": 7, "metadata": {"a": "b"}}
    first, second, third = state.shown()
    assert first == {
        **{"type": "message", "id": "msg_1_0", "role": "user", "status": "completed"},
        "content": [{"type": "input_text", "text": "0"}],
    }
    assert (second["id"], third["id"]) == ("msg_1_0_1", "msg_x")  # the ids of two nodes can be equal
    assert state.item("msg_x") == third
    assert state.history() == [user("0"), user("1"), assistant("x")]


def test_changes_apply_in_their_order() -> None:
    state = Conversation([ROOT])
    state.after(response("1", "conv_1", assistant("x")))
    state.after(deleted_item("k", state, "convchange_1", 8, "msg_x"))
    state.after(deleted_item("k", state, "convchange_2", 8, "msg_x"))  # a second client deleted it too
    state.after(new_metadata("k", state, "convchange_3", 9, {"metadata": {}}))
    assert (state.history(), state.metadata, state.nodes) == ([user("0"), user("1")], {}, 5)
    with pytest.raises(DragomanError, match="Item with id 'msg_x' not found") as caught:
        state.item("msg_x")
    assert caught.value.failure.status == 404


def test_branches_are_no_members() -> None:
    tree = [ROOT, response("1", "conv_1"), response("2", "resp_1"), response("3", "conv_1"), response("4", "resp_2")]
    assert [node.id for node in members(tree)] == ["conv_1", "resp_1", "resp_3"]
    assert [node.id for node in members(tree, "resp_1")] == ["conv_1", "resp_1"]


def test_the_objects_of_the_api() -> None:
    assert (conversation_id("req_1"), change_id("req_1")) == ("conv_1", "convchange_1")
    assert deleted_conversation("conv_1") == {"id": "conv_1", "object": "conversation.deleted", "deleted": True}
    failure = conversation_not_found("conv_1").failure
    assert (failure.status, failure.message) == (404, "Conversation with id 'conv_1' not found.")
    assert is_conversation("conv_1")
    assert not is_conversation("convchange_1")
    assert not is_conversation("resp_1")


class Counted(dict[str, Any]):
    """A dictionary that counts the searches for a key, and ends those without an end."""

    searches = 0

    def __contains__(self, key: object) -> bool:
        self.searches += 1
        assert self.searches < 10_000, "an endless search"
        return super().__contains__(key)


@pytest.mark.parametrize("number", [50, 200])
def test_repeated_ids_are_counted_up(number: int) -> None:
    """In linear time, also past ids that are taken."""
    state = Conversation([conversation_node("k", "conv_x", 0, {})])
    state._items = counted = Counted()
    taken = [assistant("a"), assistant("a_2"), assistant("a_3")]
    state.after(response("1", "conv_x", *taken, *[assistant("a")] * number))
    ids = [item["id"] for item in state.shown()]
    assert len(set(ids)) == len(ids) == number + 4
    assert ids[:6] == ["msg_1_0", "msg_a", "msg_a_2", "msg_a_3", "msg_a_1", "msg_a_4"]
    assert counted.searches <= 2 * number + 10


def test_the_kind_of_a_change_is_known_by_its_id() -> None:
    ids = [change_id("req_1", kind) for kind in (Change.ADDED, Change.DELETED, Change.UPDATED)]
    assert len(set(ids)) == 3
    assert [each.startswith(MAY_DELETE) for each in ids] == [False, True, False]
    assert [each.startswith(MAY_UPDATE) for each in ids] == [False, False, True]
    assert [each.startswith(WITHOUT_ITEMS) for each in ids] == [False, True, True]
    # Those of earlier versions do not state it.
    others = ("convchange_1", "conv_1", "resp_1")
    assert [each.startswith(MAY_DELETE) for each in others] == [True, False, False]
    assert [each.startswith(MAY_UPDATE) for each in others] == [True, True, False]
    assert not any(each.startswith(WITHOUT_ITEMS) for each in others)
