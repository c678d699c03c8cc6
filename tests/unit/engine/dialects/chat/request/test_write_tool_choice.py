"""Tool choices that an upstream takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, direction, translate
from dragoman.dialects import Dialect
from dragoman.profiles.profile import builtin_profile
from support import samples
from support.flagged_requests import ask

CHAT, MESSAGES, RESPONSES, *_ = Dialect
LOOK, FIND = ({"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("look", "find"))


ONE = {"type": "function", "function": {"name": "look"}}
SUBSET = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [ONE]}}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "find")
]


@pytest.mark.parametrize(
    ("taken", "asked", "choice", "tools", "lost"),
    [
        ("named", ONE, ONE, 2, {}),
        ("named", SUBSET, "required", 1, {LossCode.TOOLS_FILTERED: 1}),
        ("words", ONE, "required", 1, {LossCode.TOOLS_FILTERED: 1}),
        ("words", "none", "none", 2, {}),
        ("unforced", "required", "auto", 2, {LossCode.CHOICE_DOWNGRADED: 1}),
        ("unforced", ONE, "auto", 1, {LossCode.TOOLS_FILTERED: 1, LossCode.CHOICE_DOWNGRADED: 1}),
        ("unforced", "none", "none", 2, {}),
        ("auto", "auto", "auto", 2, {}),
        ("auto", "required", "auto", 2, {LossCode.CHOICE_DOWNGRADED: 1}),
        ("auto", "none", None, 0, {LossCode.TOOLS_FILTERED: 1}),
    ],
)
def test_a_choice_becomes_one_that_is_taken(
    taken: str, asked: Any, choice: Any, tools: int, lost: dict[LossCode, int]
) -> None:
    """Tools that may not be called are not sent; what is forced is asked for more softly."""
    profile = builtin_profile("chat", "compatible").replace({"tool_choice": taken, "rewrite": True})
    request = samples.request(CHAT, tools=CHAT_TOOLS, tool_choice=asked)
    translation = translate(direction("chat", "chat"), json.dumps(request).encode(), profile=profile)
    body = json.loads(translation.body)
    assert (body.get("tool_choice"), len(body.get("tools", ()))) == (choice, tools)
    assert translation.losses.counts == lost


def test_one_call_at_a_time_is_not_asked_of_who_cannot_be_asked() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    body, counts = ask(flags={"parallel_tool_calls": False}, tools=[LOOK], tool_choice=choice)
    assert "parallel_tool_calls" not in body
    assert counts == {LossCode.PARALLEL_CALLS: 1}
    body, counts = ask(flags={}, tools=[LOOK], tool_choice=choice)
    assert (body["parallel_tool_calls"], counts) == (False, {})
