"""A conversation of texts, which is written at once, next to the same turns written one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.messages.request.write import write_request
from dragoman.dialects.messages.request.write_texts import write_texts
from dragoman.errors import DragomanError
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from support.compact_turns import assistant_turn, text_turn

MESSAGES = builtin_profile("messages")
AT = ("messages", 0)
PROFILES = [MESSAGES, replace(MESSAGES, rewrite=True, thinking_replay="own_required", explicit_cache=False)]


def made(kind: str) -> Turn:
    """A turn of this kind, in compact form. Its last letter is `a` for a text in an array."""
    plain = not kind.endswith("-a")
    match kind.removesuffix("-a"):
        case "system":
            return text_turn("instruction", "Be brief.", AT, "system", plain=plain)
        case "user":
            return text_turn("user", "Hi", AT, plain=plain)
        case "blank":
            return text_turn("user", " \n", AT, plain=plain)
        case "assistant":
            return assistant_turn(AT, [], "Hello ", AT, [], plain=plain)
        case "silent":
            return assistant_turn(AT, [], " ", AT, [])
        case "call":
            return assistant_turn(AT, [], "So:", AT, [("c1", "f", "{}", AT)])
        case _:
            return assistant_turn(AT, [("Hm", AT, "chat", None, False, None, None)], "So:", AT, [])


KINDS = ["system", "system-a", "user", "user-a", "blank", "assistant", "assistant-a", "silent", "call", "thought"]


def whole(turn: Turn) -> Turn:
    """The turn as the part objects that it stands for."""
    return Turn(turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name)


def written(turns: list[Turn], origin: str, profile: Profile) -> Any:
    """The body and the losses, or the error."""
    losses, request = Losses(), Request(origin, "m", turns)
    try:
        body = write_request(
            request, model="claude-opus-5", profile=profile, knobs=Knobs(), losses=losses, names=NameTable(64)
        )
    except DragomanError as error:
        return str(error)
    return body, losses.rows


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("origin", ["chat", "responses"])
def test_texts_are_written_at_once_as_they_are_turn_by_turn(origin: str, profile: Profile) -> None:
    for count in (1, 2, 3):
        for kinds in product(KINDS, repeat=count):
            if "call" in kinds:
                continue  # the input of a call is a fragment of JSON, which cannot be compared
            at_once = written([made(kind) for kind in kinds], origin, profile)
            assert at_once == written([whole(made(kind)) for kind in kinds], origin, profile), kinds


def test_conversations_of_texts_are_written_at_once() -> None:
    turns = [made(kind) for kind in ("system", "user", "assistant", "user-a")]
    assert write_texts(turns) == (
        [{"type": "text", "text": "Be brief."}],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello "},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ],
    )
    assert turns[1].compact == "Hi"  # not expanded


@pytest.mark.parametrize("last", ["blank", "assistant", "silent", "call", "thought", "system", "user"])
def test_other_conversations_are_left_to_the_general_writer(last: str) -> None:
    assert write_texts([made("user"), made(last)]) is None
    assert write_texts([made("assistant"), made("user")]) is None
    assert write_texts([whole(made("user"))]) is None
    stated = made("assistant")
    assert stated.parts
    assert write_texts([made("user"), stated, made("user")]) is None
