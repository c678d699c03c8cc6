"""A placeholder for the first user turn (mapping §13)."""

from __future__ import annotations

import pytest

from dragoman.canonical.parts import Text
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses
from dragoman.policies import pad_first_user
from dragoman.policies.pad_first_user import PAD
from support.canonical_turns import assistant, request, system, translated, user


def texts(turn: Turn) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


def roles(made: Request) -> str:
    return "".join(turn.role[0] for turn in made.turns)


def test_a_conversation_that_begins_with_the_assistant_gets_a_placeholder() -> None:
    made, losses = request(system("be brief"), user(""), assistant("Hello, I am here."), user("hi")), Losses()
    pad_first_user(made, losses)
    assert roles(made) == "iuuau"
    assert texts(made.turns[2]) == [PAD]
    assert losses.counts == {LossCode.USER_PADDED: 1}
    pad_first_user(made, losses)
    assert losses.counts == {LossCode.USER_PADDED: 1}


@pytest.mark.parametrize("turns", [[user("hi"), assistant("x")], [system("only")], []])
def test_any_other_conversation_gets_none(turns: list[Turn]) -> None:
    made, losses = request(*turns), Losses()
    pad_first_user(made, losses)
    assert made.turns == turns
    assert not losses


@pytest.mark.parametrize(("pad", "first"), [("on", "user"), ("off", "assistant")])
def test_padding_is_the_operators_choice(pad: str, first: str) -> None:
    messages = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "hi"}]
    body, made = translated("chat", "messages", {"model": "m", "messages": messages}, pad_first_user=pad)
    assert body["messages"][0]["role"] == first
    assert bool(made.losses) is (pad == "on")
