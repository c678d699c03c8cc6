"""The documented sizes of models, by the names that hosts give them."""

from __future__ import annotations

import pytest

from dragoman.profiles.model_sizes import CONTEXT_WINDOWS, ModelSizes, documented_sizes


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("claude-opus-4-6", (1_000_000, 128_000)),
        ("anthropic/claude-opus-4.6", (1_000_000, 128_000)),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", (200_000, 64_000)),
        ("claude-sonnet-4-6@default", (1_000_000, 128_000)),
        ("claude-sonnet-4-5", (200_000, 64_000)),
        ("claude-opus-4-20250514", (200_000, 32_000)),
        ("claude-opus-5-5", (1_000_000, 128_000)),
        ("claude-3-5-sonnet-20241022", (200_000, 8192)),
        ("openai/gpt-6.2-sol", (1_050_000, 128_000)),
        ("models/gemini-3.5-flash", (1_048_576, 65_536)),
        ("gemini-3.5-flash-lite", (0, 0)),
        ("qwen3:32b", (0, 0)),
        ("", (0, 0)),
        ("x" * 500 + "claude-opus-5", (0, 0)),
    ],
)
def test_the_sizes_of_a_name(model: str, sizes: tuple[int, int]) -> None:
    assert documented_sizes(model) == ModelSizes(*sizes)


def test_each_pattern_is_the_first_for_some_name() -> None:
    patterns = [pattern for pattern, _ in CONTEXT_WINDOWS]
    for place, (pattern, window) in enumerate(CONTEXT_WINDOWS):
        name = pattern.replace("[-.]", "-").replace("[678]", "7").replace("*", "")
        assert documented_sizes(name).context_window == window, (pattern, patterns[:place])
