"""Counts that leave out reasoning or cached tokens, in every reader of the OpenAI dialects."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Usage
from dragoman.dialects.chat import stop_and_usage as chat
from dragoman.dialects.openai.endpoint_usage import read_endpoint_usage
from dragoman.dialects.openai.token_counts import inclusive_usage
from dragoman.dialects.responses import stop_and_usage as responses
from dragoman.losses import Losses

CASES = {
    # given, cached, made, reasoning, total → input, output, reasoning
    "OpenAI": ((100, 60, 20, 7, 120), (100, 20, 7)),
    "without a total": ((100, 60, 20, 7, None), (100, 20, 7)),
    "reasoning above the output": ((100, None, 20, 70, None), (100, 90, 70)),
    "reasoning above the output, in the total": ((100, None, 20, 70, 190), (100, 90, 70)),
    "reasoning below the output, in the total": ((100, None, 90, 70, 260), (100, 160, 70)),
    "reasoning in the total only": ((8, None, 9, None, 117), (8, 109, 100)),
    "reasoning of 0, but in the total": ((8, None, 9, 0, 117), (8, 109, 100)),
    "a total that nothing explains": ((8, None, 9, 4, 117), (8, 9, 4)),
    "a total below the sum": ((8, None, 9, None, 9), (8, 9, None)),
    "cached above the input": ((10, 60, 20, 7, 30), (70, 20, 7)),
    "cached below the input, in the total": ((90, 60, 20, None, 170), (150, 20, None)),
    "cached and reasoning apart": ((10, 60, 20, 70, 160), (70, 90, 70)),
    "input only": ((10, None, None, None, 10), (10, None, None)),
    "output only": ((None, None, 5, 9, 14), (None, 14, 9)),
}


def openai(case: tuple[int | None, ...], names: tuple[str, str]) -> dict[str, Any]:
    given, cached, made, reasoning, total = case
    counts: dict[str, Any] = {names[0]: given, names[1]: made, "total_tokens": total}
    counts |= {f"{names[0]}_details": {"cached_tokens": cached}, f"{names[1]}_details": {"reasoning_tokens": reasoning}}
    return counts


@pytest.mark.parametrize("case", CASES)
def test_counts_of_every_reader_include_everything(case: str) -> None:
    sent, (given, made, reasoning) = CASES[case]
    expected = Usage(given, sent[1], None, made, reasoning)
    chat_counts = openai(sent, ("prompt_tokens", "completion_tokens"))
    responses_counts = openai(sent, ("input_tokens", "output_tokens"))
    assert chat.read_usage(chat_counts) == read_endpoint_usage({"usage": chat_counts}) == expected
    assert responses.read_usage(responses_counts) == read_endpoint_usage({"usage": responses_counts}) == expected
    # What a client gets agrees with itself: it is read as the same counts.
    assert inclusive_usage(given, sent[1], None, made, reasoning, None) == expected
    if given is not None and made is not None:
        assert chat.read_usage(chat.write_usage(expected)) == expected
        written = responses.read_usage(responses.write_usage(expected, Losses()))
        assert written == Usage(given, sent[1] or 0, 0, made, reasoning or 0)


@pytest.mark.parametrize("total", [None, 30])
@pytest.mark.parametrize(("cached", "written"), [(0, 60), (60, 0), (8, 4), (60, 5)])
def test_tokens_read_from_and_written_to_a_cache_count_together(cached: int, written: int, total: int | None) -> None:
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    expected = Usage(10 + cached + written, cached, written, 20, None)
    counts: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": 20, "prompt_tokens_details": details}
    assert chat.read_usage(counts | {"total_tokens": total}) == expected
    counts = {"input_tokens": 10, "output_tokens": 20, "input_tokens_details": details}
    assert responses.read_usage(counts | {"total_tokens": total}) == expected


def test_a_sum_above_the_greatest_count_is_unknown() -> None:
    assert inclusive_usage(1, None, None, 10**10 - 1, 10**10, None) == Usage(1, None, None, None, 10**10)
