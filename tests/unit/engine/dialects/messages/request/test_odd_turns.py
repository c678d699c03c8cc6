"""Messages of an old conversation that break the rules. For all odd items: properties/test_law_odd_history.py."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.messages.request.odd_turns import OddTurns

TEXT = {"type": "text", "text": "a"}


def repaired(role: Any, *blocks: Any, before: tuple[Any, ...] = ()) -> Any:
    """The content of a message, the second one."""
    messages = [{"role": "assistant", "content": list(before)}, {"role": role, "content": list(blocks)}]
    return OddTurns(messages).repair(messages[1], 1)["content"]


def test_calls_get_ids_and_names() -> None:
    assert repaired("assistant", TEXT, {"type": "tool_use", "input": {}}, {"type": "tool_use", "id": 7, "name": 8}) == [
        TEXT,
        {"type": "tool_use", "id": "call_1_1", "name": "unnamed_tool", "input": {}},
        {"type": "tool_use", "id": "7", "name": "tool_8", "input": None},
    ]


def test_results_get_the_ids_of_the_calls_before_them() -> None:
    calls = (
        {"type": "tool_use", "name": "f"},
        {"type": "tool_use", "id": "b", "name": "f"},
        {"type": "tool_use", "id": 3},
    )
    results = [{"type": "tool_result", "content": text} for text in ("one", "two", "three")]
    named = {"type": "tool_result", "tool_use_id": "b", "content": "b"}
    found = repaired("user", results[0], named, *results[1:], before=calls)
    assert [block["tool_use_id"] for block in found] == ["call_0_0", "b", "3", "call_of_1_3"]
    assert [block["content"] for block in found] == ["one", "b", "two", "three"]


def test_a_block_in_a_wrong_place_becomes_a_text() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    assert repaired("assistant", result) == [
        {"type": "text", "text": '[tool_result] {"tool_use_id":"a","content":"x"}'}
    ]
    image = {"type": "image", "source": {"type": "url", "url": "https://a.example/"}}
    assert repaired("system", image)[0]["text"].startswith("[content left out: a image block")


@pytest.mark.parametrize(
    ("message", "role", "content"),
    [
        ({"role": "developer", "content": "x"}, "system", "x"),
        ({"role": "critic", "content": {"type": "text", "text": "a"}}, "user", [TEXT]),
        ({"role": None}, "user", ""),
        ({"role": "user", "content": 7}, "user", "7"),
    ],
)
def test_roles_and_contents(message: Any, role: str, content: Any) -> None:
    assert OddTurns([message]).repair(message, 0) == {"role": role, "content": content}
