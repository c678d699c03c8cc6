"""Instructions of a Chat request, where the upstream takes one message of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from support.flagged_requests import ask, ask_of

CHAT, MESSAGES, RESPONSES, *_ = Dialect

USER = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("mode", "roles", "lost"),
    [
        ("auto", ["system", "user", "assistant", "user"], {LossCode.SYSTEM_MOVED: 1}),
        ("hoist", ["system", "user", "assistant", "user"], {LossCode.SYSTEM_MOVED: 1}),
        ("inline", ["system", "user", "system", "assistant", "user"], {}),
        ("user", ["system", "user", "user", "assistant", "user"], {LossCode.SYSTEM_DEMOTED: 1}),
    ],
)
def test_a_template_with_one_system_message_gets_one(mode: Any, roles: list[str], lost: dict[LossCode, int]) -> None:
    """`System message must be at the beginning` (ggml-org/llama.cpp#27367)."""
    late = [USER, {"role": "system", "content": "be brief"}, {"role": "assistant", "content": "ok"}, USER]
    body, counts = ask(flags={"system_inline": False}, knobs=Knobs(mid_system=mode), system="be kind", messages=late)
    assert [message["role"] for message in body["messages"]] == roles
    assert counts == lost
    text = json.dumps(body["messages"])
    assert "be kind" in text
    assert "be brief" in text


def test_several_leading_instructions_become_one_message() -> None:
    leading = [{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}, USER]
    body, counts = ask_of(RESPONSES, CHAT, "compatible", flags={"system_inline": False}, input=leading)
    assert body["messages"][0] == {"role": "system", "content": "a\n\nb"}
    assert counts == {LossCode.TURNS_MERGED: 1}


@pytest.mark.parametrize("text_parts", [False, True])
def test_instructions_at_the_beginning_are_one_message_where_its_text_is_a_string(text_parts: bool) -> None:
    late = {"role": "developer", "content": "c"}
    given = [*({"role": "developer", "content": text} for text in "ab"), USER, late, USER]
    body, counts = ask_of(RESPONSES, CHAT, "compatible", flags={"text_parts": text_parts}, input=given)
    written = [(message["role"], message["content"]) for message in body["messages"]]
    first = [("system", "a"), ("system", "b")] if text_parts else [("system", "a\n\nb")]
    assert written == [*first, ("user", "Hi"), ("system", "c"), ("user", "Hi")]
    assert counts == ({} if text_parts else {LossCode.TURNS_MERGED: 1})
