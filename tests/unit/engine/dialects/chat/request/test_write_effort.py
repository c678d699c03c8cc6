"""Fields that switch reasoning on and off and set its effort."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import LossCode
from support.flagged_requests import ask

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("field", "off", "high"),
    [
        ("reasoning_effort", {"reasoning_effort": "none"}, {"reasoning_effort": "high"}),
        ("thinking", {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("enable_thinking", {"enable_thinking": False}, {"enable_thinking": True, "reasoning_effort": "high"}),
        (
            "chat_template_kwargs",
            {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}, "reasoning_effort": "high"},
        ),
        ("reasoning", {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "high"}}),
        (
            "reasoning_split",
            {"reasoning_split": True, "reasoning_effort": "none"},
            {"reasoning_split": True, "reasoning_effort": "high"},
        ),
    ],
)
def test_thinking_field_is_how_reasoning_is_switched(field: str, off: Json, high: Json) -> None:
    keys = {
        "thinking",
        "enable_thinking",
        "chat_template_kwargs",
        "reasoning",
        "reasoning_split",
        "reasoning_effort",
    }

    def sent(**fields: Any) -> Json:
        body, counts = ask(flags={"thinking_field": field}, **fields)
        assert counts == {}
        return {key: value for key, value in body.items() if key in keys}

    assert sent(thinking={"type": "disabled"}) == off
    assert sent(output_config={"effort": "high"}) == high
    assert sent() == ({"reasoning_split": True} if field == "reasoning_split" else {})


def test_an_upstream_with_reasoning_on_and_off_only_receives_no_level() -> None:
    """Moonshot refuses `thinking` together with `reasoning_effort` (HKUDS/nanobot#3939)."""
    flags = {"thinking_field": "thinking", "efforts": ()}
    body, counts = ask(flags=flags, output_config={"effort": "high"})
    assert body["thinking"] == {"type": "enabled"}
    assert "reasoning_effort" not in body
    assert counts == {LossCode.EFFORT_ROUNDED: 1}
    assert ask(flags=flags, thinking={"type": "disabled"})[1] == {}
