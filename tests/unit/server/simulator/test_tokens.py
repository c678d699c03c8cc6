"""Token counts of the simulated models."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.simulator.parse_request import Offer
from dragoman_server.simulator.steps import Finish, Reasoning, Scenario, Text, ToolArgs, ToolEnd, ToolStart
from dragoman_server.simulator.tokens import TokenCounts, by_fragment, by_words, count_text

STEPS = (
    Reasoning("think "),
    Reasoning("more"),
    Text("Hello world"),
    ToolStart(0, Offer("look")),
    ToolArgs(0, '{"a":'),
    ToolArgs(0, '"b"}'),
    ToolEnd(0),
    Finish("tool_calls"),
)


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("the", 1), ("the file", 2), ("hello", 2), ('{"a":"b"}', 5), ("a_b\n\n c", 5), ("東京", 1)],
)
def test_a_token_is_a_part_of_a_word_white_space_or_marks(text: str, count: int) -> None:
    assert count_text(text) == count


def test_without_a_ledger_counts_are_constants_and_fragments() -> None:
    assert by_fragment(Scenario(STEPS, cache_write=3)) == TokenCounts(12, 4, 3, 0, 5, 2)


def test_by_words_all_texts_of_the_prompt_and_of_the_reply_count() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "the file in the way"}]}
    body: dict[str, Any] = {"model": "not a part of the prompt", "system": "be so", "messages": [message], "n": 7}
    # user, text, and five words; two of the system
    counts = by_words(body, Scenario(STEPS, cache_write=3))
    assert (counts.input, counts.cached, counts.cache_write, counts.cache_write_1h) == (9, 3, 2, 1)
    # "think more" has 3 tokens, "Hello world" 4, the name 1, the arguments 5
    assert (counts.output, counts.reasoning) == (13, 3)
    assert by_words(body, Scenario()).cache_write == 0


def test_counts_are_added_and_taken_away() -> None:
    one, two = TokenCounts(1, 2, 3, 4, 5, 6), TokenCounts(output=1)
    assert one + two == TokenCounts(1, 2, 3, 4, 6, 6)
    assert one + two - two == one
