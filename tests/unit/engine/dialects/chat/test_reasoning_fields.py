"""Reasoning in the fields of Chat servers."""

from __future__ import annotations

from dragoman.dialects.chat.reasoning_fields import reasoning_text


def test_reasoning_is_read_from_each_extension_but_once() -> None:
    assert reasoning_text({"reasoning_content": "a", "reasoning": "a"}) == "a"
    assert reasoning_text({"reasoning_content": None, "reasoning": "b"}) == "b"
    details = [{"type": "reasoning.text", "text": "c"}, {"summary": "d"}, {"data": "x"}, "?"]
    assert reasoning_text({"reasoning_details": details}) == "cd"
    assert reasoning_text({"content": "e"}) == ""
