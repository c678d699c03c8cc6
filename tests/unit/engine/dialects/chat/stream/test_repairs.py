"""Chunks whose members are missing or have another form, as they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import Usage
from dragoman.dialects.chat.stream.repairs import has_counts, usual_chunk

COUNTS = {"prompt_tokens": 9, "completion_tokens": 3}
ALL = {**COUNTS, "total_tokens": 12}


def usual(chunk: dict[str, Any], usage: Usage | None = None, word: str | None = None, *, first: bool = False) -> Any:
    return json.loads(usual_chunk(json.dumps(chunk).encode(), usage, word, first=first))


@pytest.mark.parametrize(
    ("usage", "usual"),
    [
        (COUNTS, True),
        (None, True),
        ({**COUNTS, "prompt_tokens": "9"}, False),
        ({**COUNTS, "completion_tokens": 3.0}, False),
        ({**COUNTS, "prompt_tokens": -1}, False),
        ({}, False),
        ([], False),
    ],
)
def test_which_counts_clients_read(usage: Any, usual: bool) -> None:
    assert has_counts(usage) == usual


def test_a_chunk_of_counts_has_choices() -> None:
    assert usual({"choices": None, "usage": {"cost": 1}}, Usage(9, None, None, 3)) == {
        "choices": [],
        "usage": {"cost": 1, **ALL},
    }


def test_a_choice_has_a_delta_and_a_word_of_openai() -> None:
    chunk = {"x": 1, "choices": [None, {"index": 0, "delta": None, "finish_reason": "STOP"}]}
    assert usual(chunk, word="stop") == {"x": 1, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def test_a_message_has_a_role() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"role": None, "content": "Hi"}}]}
    assert usual(chunk, first=True)["choices"][0]["delta"] == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_call_has_a_type_and_no_other_form_of_it(kind: str) -> None:
    body = {"name": "f"}
    delta = {"function_call": body, "tool_calls": [None, {"index": 0, "id": "a", kind: body}, {"index": 0, kind: {}}]}
    assert usual({"choices": [{"index": 0, "delta": delta}]})["choices"][0]["delta"] == {
        "tool_calls": [{"index": 0, "id": "a", kind: body, "type": kind}, {"index": 0, kind: {}}]
    }
