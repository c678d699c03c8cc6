"""Reasoning items of a Responses request."""

from __future__ import annotations

import pytest

from dragoman.canonical.parts import Json, Reasoning
from dragoman.reasoning.envelope import Envelope
from support.responses_input import REASONING, part


def test_T16_the_blob_of_a_reasoning_item_counts_and_not_its_id() -> None:
    assert part(REASONING) == Reasoning("", ("input", 0), "responses", "blob", native=REASONING)
    nameless = {"type": "reasoning", "summary": [], "encrypted_content": "blob"}
    assert part(nameless) == Reasoning("", ("input", 0), "responses", "blob", native=nameless)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"summary": [{"type": "summary_text", "text": t} for t in ("a", "", "b")]}, "a\n\nb"),
        ({"summary": [{"type": "summary_text", "text": "a"}], "content": None}, "a"),
        (
            {
                "summary": [{"type": "summary_text", "text": "a"}],
                "content": [{"type": "reasoning_text", "text": "whole"}],
            },
            "whole",
        ),
        ({}, ""),
    ],
)
def test_text_of_reasoning(fields: Json, text: str) -> None:
    reasoning = part({"type": "reasoning", "id": "rs_1", "encrypted_content": None, **fields})
    assert (reasoning.text, reasoning.proof, reasoning.family) == (text, None, None)


def test_reasoning_in_an_envelope_belongs_to_who_made_it() -> None:
    block = {"type": "thinking", "thinking": "whole", "signature": "sig"}
    proof = Envelope("anthropic", "claude").wrap("messages", block)
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "who"}], "encrypted_content": proof}
    assert part(item) == Reasoning("who", ("input", 0), "messages", proof, native=block, family="anthropic")
    damaged = part({**item, "encrypted_content": proof[:-5]})
    assert (damaged.origin, damaged.native, damaged.family) == ("", None, "")
