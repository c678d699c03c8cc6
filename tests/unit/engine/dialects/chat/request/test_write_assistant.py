"""Reasoning of the assistant's turns in a Chat request."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import LossCode
from support.flagged_requests import ask

Json = dict[str, Any]

USER = {"role": "user", "content": "Hi"}
CALLED: Json = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]}
ANSWERED = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reasoning_content", "why"),
        ("reasoning", "why"),
        ("reasoning_details", [{"type": "reasoning.text", "text": "why"}]),
    ],
)
def test_reasoning_key_is_where_reasoning_goes_back(key: str, value: Any) -> None:
    thinking = {"type": "thinking", "thinking": "why", "signature": ""}
    for content in ([thinking, *CALLED["content"]], [thinking, {"type": "text", "text": "so"}]):
        history = [USER, {"role": "assistant", "content": content}, ANSWERED if content[1]["type"] != "text" else USER]
        body, _ = ask(flags={"reasoning_key": key}, messages=history)
        message = body["messages"][1]
        assert message[key] == value
        assert not {"reasoning_content", "reasoning", "reasoning_details"} - {key} & message.keys()


def test_calls_without_reasoning_are_given_a_blank_one_where_it_must_be_there() -> None:
    """`thinking is enabled but reasoning_content is missing in assistant tool call message` (T-15)."""
    history = [USER, CALLED, ANSWERED]
    body, counts = ask(flags={"reasoning_required": True}, messages=history)
    assert body["messages"][1]["reasoning_content"] == " "
    assert counts == {LossCode.REASONING_FILLED: 1}
    body, counts = ask(flags={"reasoning_required": True}, messages=history, thinking={"type": "disabled"})
    assert "reasoning_content" not in body["messages"][1]
    assert counts == {}
    turns = [USER, {"role": "assistant", "content": [{"type": "text", "text": "x"}, *CALLED["content"]]}, ANSWERED]
    assert ask(flags={"reasoning_required": True}, messages=turns)[1] == {LossCode.REASONING_FILLED: 1}
