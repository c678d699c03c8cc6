"""Messages of an old Chat conversation that break its rules. For all odd items: properties/test_law_odd_history.py."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.chat.request.odd_messages import repair

IMAGE = {"type": "image_url", "image_url": {"url": "https://a.example/i.png"}}


def function(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("call", "repaired"),
    [
        ({"id": 7, "type": "function", "function": {"name": "f", "arguments": "{}"}}, function("7", "f", "{}")),
        ({"id": "a", "function": {"name": 7}}, function("a", "tool_7", "")),
        ({"id": "a", "type": "function"}, function("a", "unnamed_tool", "")),
        ({"id": "a", "type": "function", "function": "f x"}, function("a", "unnamed_tool", "f x")),
        ({"id": "a", "type": "web", "web": {"q": "x"}}, function("a", "unnamed_tool", '{"q":"x"}')),
        ({"type": ["x"]}, function("call_4_0", "unnamed_tool", "")),
        (
            {"id": 7, "type": "custom", "custom": {"name": "f", "input": "x"}},
            {"id": "7", "type": "custom", "custom": {"name": "f", "input": "x"}},
        ),
    ],
)
def test_a_call_becomes_one_that_can_be_read(call: Any, repaired: Any) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert repair(message, 4) == {"role": "assistant", "content": None, "tool_calls": [repaired]}


def test_what_is_no_call_becomes_a_text() -> None:
    found = repair({"role": "assistant", "content": "Hi", "tool_calls": ["so", None, 7]}, 4)
    texts = [{"type": "text", "text": text} for text in ("Hi", "so", "7")]
    assert found == {"role": "assistant", "tool_calls": [], "content": texts}


def test_parts_that_the_role_has_not_become_texts() -> None:
    found = repair({"role": "system", "content": [{"type": "text", "text": "a"}, IMAGE]}, 4)
    assert found["content"][0] == {"type": "text", "text": "a"}
    assert found["content"][1]["text"].startswith("[content left out: ")
    kept = repair({"role": "user", "content": [IMAGE, {"type": "tool_use", "id": "a", "input": {}}]}, 4)
    assert kept["content"] == [IMAGE, {"type": "text", "text": '[tool_use] {"input":{}}'}]


def test_an_unknown_role_is_the_users() -> None:
    assert repair({"role": "critic", "content": 7}, 4) == {"role": "user", "content": "7"}
    assert repair({"role": "user"}, 4) == {"role": "user", "content": ""}
    assert repair({"role": "tool", "tool_call_id": 7, "content": "x"}, 4)["tool_call_id"] == "7"
