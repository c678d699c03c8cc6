from __future__ import annotations

import pytest

from dragoman.dialects.generate.signatures import block_of, read_block, signature_of
from dragoman.reasoning.envelope import Envelope, unwrap


def test_a_signature() -> None:
    assert signature_of({"text": "", "thoughtSignature": "S"}) == "S"
    assert signature_of({"thoughtSignature": 5}) == signature_of({}) == ""


def test_a_block_survives_its_envelope() -> None:
    opened = unwrap(Envelope("google", "m").wrap("generate", block_of("functionCall", "Need", "S")))
    assert opened is not None
    assert opened.block is not None
    assert (opened.dialect, opened.family) == ("generate", "google")
    assert read_block(opened.block) == ("functionCall", "Need", "S")


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "part", "on": "functionResponse", "thought": 1, "thoughtSignature": "S"},
        {"type": "part", "on": "text", "thoughtSignature": ""},
        {"type": "part", "on": "text", "thoughtSignature": ["S"]},
        {"type": "part", "on": None},
    ],
)
def test_a_forged_block_has_no_part(forged: dict[str, object]) -> None:
    assert read_block(forged)[0] == ""
