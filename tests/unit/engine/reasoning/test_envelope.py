"""Envelopes of reasoning that travels through a client of another dialect (mapping §5.2)."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.parts import Reasoning
from dragoman.reasoning.envelope import TAG, Envelope, OpenedEnvelope, own_block, unwrap

THINKING = {"type": "thinking", "thinking": "Größer 👋", "signature": "EqQB/+=="}
REDACTED = {"type": "redacted_thinking", "data": "d"}
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
FIELD = {"reasoning_content": "Hm"}
ENVELOPE = Envelope("house", "model-1")
BLOCKS = [("messages", THINKING), ("messages", REDACTED), ("responses", ITEM), ("chat", FIELD)]


def packed(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return TAG + urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize(("dialect", "block"), BLOCKS)
def test_what_is_wrapped_comes_back(dialect: str, block: Any) -> None:
    text = ENVELOPE.wrap(dialect, block)
    assert unwrap(text) == OpenedEnvelope(dialect, "house", "model-1", block)
    assert ENVELOPE.wrap(dialect, dict(block)) == text


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_comes_back(thinking: str, signature: str, family: str, model: str) -> None:
    block = {"type": "thinking", "thinking": thinking, "signature": signature}
    text = Envelope(family, model).wrap("messages", block)
    assert unwrap(text) == OpenedEnvelope("messages", family, model, block)
    assert set(text[len(TAG) :]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_half_a_surrogate_pair_comes_back() -> None:
    block = {"reasoning_content": "\ud83d"}
    assert unwrap(ENVELOPE.wrap("chat", block)) == OpenedEnvelope("chat", "house", "model-1", block)


def test_the_envelope_is_readable() -> None:
    """It is no secret: who wonders what travels there can look."""
    text = ENVELOPE.wrap("chat", FIELD)[len(TAG) :]
    content = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert content == {"d": "chat", "f": "house", "m": "model-1", "b": FIELD}


@pytest.mark.parametrize("text", ["", "EqQBCkYIBxgCKkDabc/+==", "gAAAAABo", "dgm1", "DGM1.x", " dgm1.x", "dgm2.x"])
def test_what_is_no_envelope_is_the_clients_own(text: str) -> None:
    assert unwrap(text) is None


@pytest.mark.parametrize(
    "text",
    [
        TAG,
        TAG + "!",
        TAG + "é",
        TAG + "\ud83d",
        TAG + "AAAAA",
        packed(b"{"),
        packed(b"\xff"),
        packed([]),
        packed("x"),
        packed(None),
        packed({}),
        packed({"d": "chat", "f": "house", "m": "m"}),
        packed({"d": "chat", "f": "house", "m": "m", "b": "x"}),
        packed({"d": "chat", "f": 1, "m": "m", "b": FIELD}),
        packed({"d": "chat", "f": "house", "m": None, "b": FIELD}),
        packed({"d": ["chat"], "f": "house", "m": "m", "b": FIELD}),
        packed(b"[" * 5000),
    ],
)
def test_a_damaged_envelope_belongs_to_no_one(text: str) -> None:
    assert unwrap(text) == OpenedEnvelope()


@pytest.mark.parametrize(
    ("dialect", "block"),
    [
        ("messages", {"type": "tool_use", "id": "t", "name": "rm", "input": {}}),
        ("messages", {"type": "text", "text": "x"}),
        ("messages", {"type": ["thinking"]}),
        ("messages", {}),
        ("responses", {"type": "message"}),
        ("chat", {"reasoning_content": 5}),
        ("chat", THINKING),
        ("other", {"type": "thinking"}),
    ],
)
def test_nothing_but_reasoning_comes_out(dialect: str, block: Any) -> None:
    """It is written into the request as it is, without the checks that all other content passes."""
    assert unwrap(ENVELOPE.wrap(dialect, block)) == OpenedEnvelope()


@given(st.integers(0, 10_000), st.text("ABCabc019-_=!. \n", max_size=3))
def test_damage_raises_nothing(place: int, junk: str) -> None:
    text = ENVELOPE.wrap("messages", THINKING)
    at = len(TAG) + place % (len(text) - len(TAG))
    for damaged in (text[:at], text[:at] + junk + text[at:], text[:at] + junk + text[at + 1 :]):
        found = unwrap(damaged)
        assert isinstance(found, OpenedEnvelope)
        if "=" in junk or "!" in junk or "." in junk or " " in junk or "\n" in junk:
            assert damaged == text[:at] or found == OpenedEnvelope()


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 20])
def test_a_shortened_envelope_is_damaged(cut: int) -> None:
    assert unwrap(ENVELOPE.wrap("messages", THINKING)[:-cut]) == OpenedEnvelope()


@pytest.mark.parametrize(
    ("part", "own"),
    [
        (Reasoning("x", (), "messages", "p", native=THINKING, family="house"), True),
        (Reasoning("x", (), "messages", "p", native=THINKING), True),
        (Reasoning("x", (), "messages", "p", native=THINKING, family="other"), False),
        (Reasoning("x", (), "messages", "p", native=THINKING, family=""), False),
        (Reasoning("x", (), "responses", "p", native=ITEM, family="house"), False),
        (Reasoning("x", (), "messages", "p", family="house"), False),
    ],
)
def test_only_the_family_that_made_a_block_gets_it_back(part: Reasoning, own: bool) -> None:
    assert own_block(part, "messages", "house") == (THINKING if own else None)
