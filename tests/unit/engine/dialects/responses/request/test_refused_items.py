"""Items of `input` that are refused, and the texts of the errors."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ClientRequestError
from dragoman.dialects.responses.request.refused_items import current_turn, is_reference, reject_item


@pytest.mark.parametrize(
    ("item", "field", "text"),
    [
        ({"type": "mcp_approval_request"}, "input.0.type", "does not connect to MCP servers"),
        ({"type": "program_output"}, "input.0.type", "writes no programs"),
        ({"type": "item_reference", "id": "msg_1"}, "input.0.type", "no items are stored here"),
        ({"id": "msg_1"}, "input.0", "an item of type 'item_reference'"),
        ({"type": "new_thing"}, "input.0.type", "no other dialect has such an item"),
        ({"type": 7}, "input.0.type", "string"),
        ({}, "input.0.type", "required"),
    ],
)
def test_an_error_names_the_field_and_the_cure(item: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(ClientRequestError, match=text) as caught:
        reject_item(item, ("input", 0))
    assert caught.value.failure.param == field.replace(".0", "[0]")


@pytest.mark.parametrize(
    ("item", "names_another"),
    [
        ({"type": "item_reference", "id": "a"}, True),
        ({"id": "a"}, True),
        ({"id": "a", "role": "user"}, False),
        ({"type": "message", "id": "a"}, False),
        ("a", False),
    ],
)
def test_a_reference_names_another_item(item: Any, names_another: bool) -> None:
    assert is_reference(item) is names_another


def test_the_current_turn_begins_after_the_last_item_of_the_assistant() -> None:
    user, assistant = {"role": "user"}, {"type": "message", "role": "assistant"}
    assert current_turn([user, assistant, user, {"role": "developer"}]) == 2
    assert current_turn([user, {"type": "function_call_output"}]) == 1
    assert current_turn([assistant]) == 0
