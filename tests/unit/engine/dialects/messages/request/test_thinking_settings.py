"""Thinking of a Messages request: budget and effort."""

from __future__ import annotations

from dragoman.dialects import Dialect
from support.flagged_requests import ask_of

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def test_messages_may_receive_budget_and_effort() -> None:
    """DeepSeek takes `enabled` and ignores its budget; its effort is another field."""
    flags = {"thinking": "budget_and_effort"}
    body, counts = ask_of(CHAT, MESSAGES, "compatible", flags=flags, reasoning_effort="low", max_completion_tokens=9000)
    assert (body["thinking"], body["output_config"]) == ({"type": "enabled", "budget_tokens": 1024}, {"effort": "low"})
    assert counts == {}
