"""Content arrays of compatible servers."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.chat.content_parts import read_content_parts
from dragoman.losses import LossCode, Losses


def test_kind_and_text_of_each_part() -> None:
    losses = Losses()
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}, 3]},
        {"type": "thinking", "thinking": "so"},
        {"type": "text", "text": "Hi"},
        {"type": "refusal", "refusal": "No"},
    ]
    assert read_content_parts(parts, ("message",), losses) == [
        ("reasoning", "hm"),
        ("reasoning", "so"),
        ("text", "Hi"),
        ("refusal", "No"),
    ]
    assert not losses


@pytest.mark.parametrize("part", [{"type": "audio", "audio": "x"}, {"type": "text", "text": 3}, {"type": []}, 3])
def test_other_parts_are_losses(part: Any) -> None:
    losses = Losses()
    assert read_content_parts([{"type": "text", "text": "a"}, part], ("message",), losses) == [("text", "a")]
    assert [(row.code, row.path) for row in losses.rows] == [(LossCode.UNKNOWN_EVENT, "message.content[1]")]


def test_unknown_keys_of_reasoning_are_rows() -> None:
    losses = Losses()
    reasonings = [{"type": "text", "text": "h", "zz": 1}, {"type": "reference", "reference_ids": [1]}]
    parts = read_content_parts([{"type": "thinking", "thinking": reasonings}], ("message",), losses)
    assert parts == [("reasoning", "h")]
    assert [row.path for row in losses.rows] == [
        "message.content.thinking.zz",
        "message.content.thinking.reference_ids",
    ]


def test_a_part_that_is_closed_loses_nothing() -> None:
    losses = Losses()
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "h"}], "closed": True}
    assert read_content_parts([part], ("message",), losses) == [("reasoning", "h")]
    assert not losses
    read_content_parts([{**part, "signature": "s"}], ("message",), losses)
    assert [row.path for row in losses.rows] == ["message.content.signature"]
