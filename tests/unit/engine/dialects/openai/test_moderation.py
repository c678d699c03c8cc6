"""Moderation in the forms of Chat and Responses."""

from __future__ import annotations

from typing import Any

from dragoman.dialects.openai.moderation import read_response_moderation, write_response_moderation
from dragoman.losses import Losses

ONE: dict[str, Any] = {"type": "moderation_result", "model": "omni", "flagged": False}
FAULT = {"type": "error", "code": "c", "message": "m"}


def test_a_moderation_survives_the_way_there_and_back() -> None:
    losses = Losses()
    given = {"input": ONE, "output": FAULT}
    chat = read_response_moderation(given)
    assert chat == {"input": {"type": "moderation_results", "model": "omni", "results": [ONE]}, "output": FAULT}
    assert write_response_moderation(chat, losses) == given
    assert not losses


def test_of_several_results_the_flagged_one_is_kept_with_a_row() -> None:
    losses, flagged = Losses(), {**ONE, "flagged": True}
    chat = {"input": {"type": "moderation_results", "results": [ONE, flagged]}, "output": FAULT}
    assert write_response_moderation(chat, losses)["input"] == flagged
    assert [row.path for row in losses.rows] == ["moderation.input.results"]


def test_what_is_no_object_is_none() -> None:
    assert read_response_moderation("x") is None
