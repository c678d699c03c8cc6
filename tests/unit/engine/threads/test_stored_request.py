"""The fields of a request that concern the store, and the errors about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.errors import ClientRequestError
from dragoman.threads import (
    StoredRequest,
    check_outputs,
    previous_not_found,
    relocate,
    response_not_found,
    with_history,
)
from support.thread_stores import user


def test_a_request_is_stored_unless_it_states_otherwise() -> None:
    assert StoredRequest.read({"input": "Hi", "store": False}) is None
    for body in ({"input": "Hi"}, {"input": "Hi", "store": True}, {"input": "Hi", "store": None}):
        read = StoredRequest.read(body)
        assert read is not None
        assert (read.previous, read.store, json.loads(read.input)) == (None, True, [user("Hi")])


def test_a_request_that_continues_without_being_stored() -> None:
    read = StoredRequest.read({"input": [user("Hi")], "store": False, "previous_response_id": "resp_1"})
    assert read == StoredRequest("resp_1", None, False, json.dumps([user("Hi")], separators=(",", ":")).encode())
    assert read.reply_fields(store=False) == {"previous_response_id": "resp_1", "store": False}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"store": 1}, "store"),
        ({"previous_response_id": 1}, "previous_response_id"),
        ({"previous_response_id": "a b"}, "previous_response_id"),
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"previous_response_id": "r", "conversation": "c"}, "previous_response_id"),
        ({"previous_response_id": "conv_1"}, "previous_response_id"),
        ({"conversation": 1}, "conversation"),
        ({"conversation": {}}, "conversation"),
        ({"conversation": {"id": "a b"}}, "conversation"),
    ],
)
def test_a_field_that_is_wrong(body: dict[str, Any], param: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        StoredRequest.read(body)
    assert caught.value.failure.param == param


def test_a_whole_conversation_as_a_continuation() -> None:
    read = StoredRequest.read({"input": [user("a"), user("b"), user("c")]})
    assert read is not None
    after = read.after("resp_1", [user("c")])
    assert (after.parent, after.store, json.loads(after.input)) == ("resp_1", True, [user("c")])
    assert after.reply_fields(store=True)["previous_response_id"] == "resp_1"


def test_history_comes_before_the_own_input() -> None:
    body = {"model": "m", "previous_response_id": "r", "instructions": "i", "input": "b"}
    assert with_history(body, [user("a")]) == {"model": "m", "instructions": "i", "input": [user("a"), user("b")]}
    assert with_history({"previous_response_id": "r"}, [user("a")]) == {"input": [user("a")]}
    assert with_history({"previous_response_id": "r", "input": 7}, [user("a")]) == {"input": 7}


def test_the_errors_are_those_of_the_api() -> None:
    failure = previous_not_found("resp_1").failure
    assert (failure.status, failure.code, failure.param, failure.message) == (
        400,
        "previous_response_not_found",
        "previous_response_id",
        "Previous response with id 'resp_1' not found.",
    )
    assert (response_not_found("resp_1").failure.status, response_not_found("x").failure.message) == (
        404,
        "Response with id 'x' not found.",
    )


@pytest.mark.parametrize(
    ("path", "param", "start"),
    [
        (("input", 5, "content"), "input[2].content", "input[2].content: expected"),
        (("input", 1, "content"), "previous_response_id", "previous_response_id: the conversation before r: input[1]"),
        (("tools", 0), "tools[0]", "tools[0]: expected"),
    ],
)
def test_an_error_names_the_field_of_the_client(path: tuple[str | int, ...], param: str, start: str) -> None:
    error = ClientRequestError(path, "expected a text")
    relocate(error, StoredRequest("r", None, True, b"[]"), 3)
    assert error.failure.param == param
    assert error.failure.message.startswith(start)


def call(kind: str, call_id: Any = "c1") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id}


KINDS = ["function_call", "custom_tool_call", "tool_search", "shell_call", "apply_patch_call", "computer_call"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_of_an_unknown_call_is_refused(kind: str) -> None:
    label = kind.replace("_", " ")
    for items, start in (
        ([call(f"{kind}_output")], 0),
        ([user("a"), call(kind, "c2"), call(f"{kind}_output", "c2"), call(f"{kind}_output")], 3),
        ([call(f"{kind}_output"), user("a"), call(f"{kind}_output")], 2),  # an output is no call
    ):
        with pytest.raises(ClientRequestError) as caught:
            check_outputs({"input": items}, start)
        assert caught.value.failure.param == "input"
        assert caught.value.failure.message == f"No tool call found for {label} output with call_id c1."


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_of_a_call_that_is_there_is_not(kind: str) -> None:
    output = call(f"{kind}_output")
    asked = call(f"{kind}_call" if kind == "tool_search" else kind)
    for before in ([asked], [user("a"), asked, user("b")]):
        check_outputs({"input": [*before, output]}, len(before))
    check_outputs({"input": [user("a"), asked, output]}, 1)  # the client sends the call again


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "fc_1"},
        {"id": "fc_1"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "compaction_summary", "encrypted_content": "x"},
    ],
)
def test_a_call_may_be_in_what_another_item_stands_for(item: dict[str, Any]) -> None:
    check_outputs({"input": [item, user("a"), call("function_call_output")]}, 2)


@pytest.mark.parametrize("given", [None, "Hi", 7, [], [None, "x"], [{"role": "user", "content": "a"}]])
def test_an_input_without_outputs_is_not_checked(given: Any) -> None:
    check_outputs({"input": given}, 0)
    unusable: list[Any] = [None, 7, {}]
    for call_id in unusable:  # an item that is malformed, or that needs none
        check_outputs({"input": [call("function_call_output", call_id)]}, 0)
    check_outputs({"input": [call("function_call"), {"type": {}, "call_id": "c2"}, call("function_call_output")]}, 2)


def test_outputs_before_the_own_items_are_not_checked() -> None:
    """A history may have them: with `repair` they were dropped when it began."""
    check_outputs({"input": [call("function_call_output"), user("a")]}, 1)
