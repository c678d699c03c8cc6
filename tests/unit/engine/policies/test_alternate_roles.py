"""Turns of one role become one where the upstream wants alternation (mapping §13)."""

from __future__ import annotations

from dragoman.canonical.parts import Text, ToolCall, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses
from dragoman.policies import alternate
from support.canonical_turns import assistant, call, image, request, result, system, translated, user
from support.compact_turns import assistant_turn, result_turn


def texts(turn: Turn) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


def roles(made: Request) -> str:
    return "".join(turn.role[0] for turn in made.turns)


def test_seed_S2_22_consecutive_turns_of_one_role_become_one() -> None:
    """User blocks are put together; text and calls of the assistant's as well."""
    made = request(user("one"), user("two", image()), assistant("I look."), assistant(call()), user(result()))
    losses = Losses()
    alternate(made, losses)
    assert roles(made) == "uau"
    assert [type(part).__name__ for part in made.turns[0].parts] == ["Text", "Text", "Image"]
    assert [type(part) for part in made.turns[1].parts] == [Text, ToolCall]
    assert losses.counts == {LossCode.TURNS_MERGED: 2}


def test_texts_are_not_joined_and_those_of_two_messages_are_paragraphs() -> None:
    made = request(user("go"), assistant("a"), assistant("b"))
    alternate(made, Losses())
    assert texts(made.turns[1]) == ["a", "b"]
    body, _ = translated(
        "messages",
        "chat",
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "on"},
            ],
        },
        flags={"strict_alternation": True},
    )
    assert [(message["role"], message["content"]) for message in body["messages"]] == [
        ("user", "go"),
        ("assistant", "a\n\nb"),
        ("user", "on"),
    ]


def test_results_stay_messages_of_their_own_and_are_not_unpacked() -> None:
    steps = [
        assistant_turn((), [], "t", (), [("c1", "f", "{}", ())]),
        result_turn((), [("c1", "ok", (), False)]),
    ]
    made = request(user("go"), *steps, user("and now?"), user("well?"))
    alternate(made, Losses())
    assert roles(made) == "uauu"
    assert [turn.compact is not None for turn in made.turns[1:3]] == [True, True]
    assert made.turns[1:3] == steps
    assert texts(made.turns[3]) == ["and now?", "well?"]


def test_text_next_to_a_result_joins_the_following_text() -> None:
    made = request(user("go"), assistant(call()), user(result(), "hm"), user("well?"))
    alternate(made, Losses())
    assert [type(part) for part in made.turns[2].parts] == [ToolResult, Text, Text]


def test_an_instruction_keeps_turns_apart_and_an_empty_turn_does_not() -> None:
    made = request(user("a"), system("mind"), user("b"), user(""), assistant(""), user("c"))
    alternate(made, Losses())
    assert [texts(turn) for turn in made.turns] == [["a"], ["mind"], ["b", "c"]]


def test_two_authors_of_one_message_are_a_loss() -> None:
    made = request(user("a"), user("b"), user("c"))
    made.turns[0].name = made.turns[1].name = "ann"
    losses = Losses()
    alternate(made, losses)
    assert made.turns[0].name is None
    assert losses.counts == {LossCode.TURNS_MERGED: 2, LossCode.PARTICIPANT_NAME: 1}


def test_it_is_off_where_the_upstream_does_not_ask() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": word} for word in ("a", "b")]}
    plain, made = translated("messages", "chat", body)
    assert len(plain["messages"]) == 2
    assert not made.losses


def test_messages_upstreams_get_alternating_roles_without_being_asked() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": word} for word in ("a", "b")]}
    sent, made = translated("chat", "messages", body)
    assert [part["text"] for part in sent["messages"][0]["content"]] == ["a", "b"]
    assert not made.losses
