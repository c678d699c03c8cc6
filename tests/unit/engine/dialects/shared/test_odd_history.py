"""Messages of a history that break their dialect's rules: the part that all dialects share."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.shared.odd_history import (
    OddHistory,
    current_turn,
    has_prose,
    item_text,
    known_content,
    known_id,
    known_name,
    known_role,
)
from dragoman.errors import ClientRequestError
from dragoman.losses import LossCode, Losses

USER, ASSISTANT, TOOL = ({"role": role, "content": "x"} for role in ("user", "assistant", "tool"))
ERROR = ClientRequestError(("messages", 0, "content"), "no string")
ROLES = ("user", "assistant", "system")


@pytest.mark.parametrize(
    ("messages", "first"),
    [
        ([], 0),
        ([USER, USER], 0),
        ([USER, ASSISTANT, USER], 2),
        ([USER, ASSISTANT, TOOL], 2),
        ([USER, ASSISTANT, None, USER], 2),
        ([USER, ASSISTANT], 0),
        ([USER, ASSISTANT, ASSISTANT], 2),
    ],
)
def test_the_current_turn_begins_behind_the_last_answer(messages: list[Any], first: int) -> None:
    assert current_turn(messages) == first


def test_the_field_that_an_error_names_is_left_out() -> None:
    """Each at a time, up to one that must stay: then the whole message is a text."""

    def read(message: Any, number: int) -> Any:
        for key in ("name", "mark"):
            if key in message:
                raise ClientRequestError(("messages", number, key, "deep"), "wrong")
        if message["content"] != '[item] {"role":"user","name":1,"mark":2,"content":3}':
            raise ClientRequestError(("messages", number, "content"), "wrong")
        return message

    losses = Losses()
    odd = OddHistory([{}, ASSISTANT, USER], losses, lambda message, number: message)
    message = {"role": "user", "name": 1, "mark": 2, "content": 3}
    found = odd.read(message, 0, ERROR, read)
    assert found == {"role": "user", "content": '[item] {"role":"user","name":1,"mark":2,"content":3}'}
    assert [loss.path for loss in losses] == ["messages[0]"]


@pytest.mark.parametrize("message", [None, {}, [], ""])
def test_nothing_is_left_out_with_a_row(message: Any) -> None:
    losses = Losses()
    assert OddHistory([message, ASSISTANT, USER], losses, fail).read(message, 0, ERROR, fail) is None
    assert losses.counts == {LossCode.ITEM_SHAPE: 1}


@pytest.mark.parametrize(("message", "text"), [("words", "words"), (7, "7"), (["a"], '["a"]')])
def test_what_is_no_message_becomes_a_text(message: Any, text: str) -> None:
    odd = OddHistory([message, ASSISTANT, USER], Losses(), fail)
    assert odd.read(message, 0, ERROR, lambda other, _: other) == {"role": "user", "content": text}


def test_rows_of_the_first_attempt_are_replaced() -> None:
    losses = Losses()
    losses.add_once(LossCode.CALL_ID, ("messages", 0, "tool_calls"), "x")
    losses.add(LossCode.CALL_ID, ("messages", 1), "y")
    OddHistory([USER, ASSISTANT, USER], losses, lambda message, number: message).read(USER, 0, ERROR, again(losses))
    assert [str(loss.code) for loss in losses] == ["call_id", "call_id", "item_shape"]


def again(losses: Losses) -> Any:
    return lambda message, number: losses.add_once(LossCode.CALL_ID, ("messages", 0, "tool_calls"), "x")


@pytest.mark.parametrize("number", [2, 3])
def test_the_current_turn_raises(number: int) -> None:
    with pytest.raises(ClientRequestError, match="no string"):
        OddHistory([USER, ASSISTANT, USER, USER], Losses(), fail).read(USER, number, ERROR, fail)


def test_strict_losses_raise() -> None:
    with pytest.raises(ClientRequestError, match="no string"):
        OddHistory([USER, ASSISTANT, USER], Losses(strict=True), fail).read(USER, 0, ERROR, fail)


def fail(*_: Any) -> Any:
    raise AssertionError


def test_roles() -> None:
    assert known_role({"role": "system"}, ROLES) == "system"
    assert known_role({"role": "Model"}, ROLES) == "assistant"
    assert known_role({"role": ["user"]}, ROLES) == "user"
    assert known_role({"role": "critic"}, ROLES) == "user"
    assert known_role({"tool_calls": [{}]}, ROLES) == "assistant"


def test_contents_ids_and_names() -> None:
    assert [known_content(value) for value in (None, "a", ["a"], {"a": 1}, 7)] == [None, "a", ["a"], [{"a": 1}], "7"]
    assert [known_id(value) for value in (None, "a", 7, True, ["a"])] == ["", "a", "7", "", ""]
    assert [known_name(value) for value in (None, "a", 7, "")] == ["unnamed_tool", "a", "tool_7", "unnamed_tool"]


def test_the_text_of_an_item_has_no_ids_and_no_long_data() -> None:
    assert item_text({"type": "x", "id": "x_1", "a": [1], "none": None}) == '[x] {"a":[1]}'
    assert item_text({"image": "A" * 5000}) == '[item] {"image":"[5000 characters of data]"}'


@pytest.mark.parametrize(
    ("value", "prose"),
    [("two words", True), ("one", False), ({"a": [{"b": "two words"}]}, True), ([1, None, "x"], False), (7, False)],
)
def test_prose(value: Any, prose: bool) -> None:
    assert has_prose(value) is prose
