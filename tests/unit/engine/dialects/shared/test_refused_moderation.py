"""Moderation in requests to APIs that have none."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.shared.refused_moderation import refuse_moderation
from dragoman.errors import Unsupported
from dragoman.losses import Losses


@pytest.mark.parametrize("moderation", [{}, {"mode": "report"}, {"policy": "x"}, {"policy": {"input": None}}])
def test_a_report_is_dropped_with_a_row(moderation: dict[str, Any]) -> None:
    losses = Losses()
    refuse_moderation(moderation, losses, "Messages")
    assert [(row.code, row.path) for row in losses.rows] == [("moderation", "moderation")]


@pytest.mark.parametrize("moderation", [{"mode": "block"}, {"policy": {"input": {}, "output": {"mode": "block"}}}])
def test_blocking_is_rejected(moderation: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="cannot be sent to a Gemini upstream"):
        refuse_moderation(moderation, Losses(), "Gemini")
