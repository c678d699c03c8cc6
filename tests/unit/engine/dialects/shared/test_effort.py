"""Reasoning efforts are rounded down, and never to none."""

from __future__ import annotations

import pytest

from dragoman.dialects.shared.effort import round_effort


@pytest.mark.parametrize(
    ("effort", "efforts", "rounded"),
    [
        ("high", ("low", "high"), "high"),
        ("xhigh", ("low", "high"), "high"),
        ("medium", ("low", "high"), "low"),
        ("minimal", ("low", "high"), "low"),
        ("low", ("none", "high"), "high"),
        ("none", ("none", "low"), "none"),
        ("none", ("low", "high"), "low"),
        ("high", ("none",), None),
        ("high", (), None),
    ],
)
def test_an_effort_becomes_the_highest_level_that_is_not_above_it(
    effort: str, efforts: tuple[str, ...], rounded: str | None
) -> None:
    assert round_effort(effort, efforts) == rounded
