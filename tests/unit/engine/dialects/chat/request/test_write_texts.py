"""A conversation of texts, which is written at once, next to the same turns written one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.chat.request.write_messages import write_messages
from dragoman.dialects.chat.request.write_texts import write_texts
from dragoman.errors import DragomanError
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from support.compact_turns import assistant_turn, text_turn

CHAT = builtin_profile("chat")
AT = ("messages", 0)
PROFILES = [
    CHAT,
    replace(CHAT, instruction_role="developer"),
    replace(CHAT, text_parts=False, system_inline=False, reasoning_required=True),
    replace(CHAT, system_inline=False, reasoning_replay=True),
]


def made(kind: str) -> Turn:
    """A turn of this kind, in compact form. Its last letter is `a` for a text in an array."""
    plain = not kind.endswith("-a")
    match kind.removesuffix("-a"):
        case "system" | "top":
            return text_turn("instruction", "Be brief.", AT, kind.removesuffix("-a"), plain=plain)
        case "user":
            return text_turn("user", "Hi", AT, plain=plain)
        case "empty":
            return text_turn("user", "", AT, plain=plain)
        case "assistant":
            return assistant_turn(AT, [], "Hello", AT, [], plain=plain)
        case "silent":
            return assistant_turn(AT, [], None, (), [])
        case "call":
            return assistant_turn(AT, [], "So:", AT, [("c1", "f", "{}", AT)])
        case _:
            return assistant_turn(AT, [("Hm", AT, "messages", None, False, None, None)], "So:", AT, [])


KINDS = [
    "system",
    "system-a",
    "top",
    "user",
    "user-a",
    "empty",
    "assistant",
    "assistant-a",
    "silent",
    "call",
    "thought",
]


def whole(turn: Turn) -> Turn:
    """The turn as the part objects that it stands for."""
    return Turn(turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name)


def written(turns: list[Turn], origin: str, profile: Profile) -> Any:
    """The messages and the losses, or the error."""
    losses = Losses()
    try:
        messages = write_messages(Request(origin, "m", turns), profile, Knobs(), losses, NameTable(64))
    except DragomanError as error:
        return str(error)
    return messages, losses.rows


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("origin", ["messages", "responses"])
def test_texts_are_written_at_once_as_they_are_turn_by_turn(origin: str, profile: Profile) -> None:
    for count in (1, 2, 3):
        for kinds in product(KINDS, repeat=count):
            at_once = written([made(kind) for kind in kinds], origin, profile)
            assert at_once == written([whole(made(kind)) for kind in kinds], origin, profile), kinds


def test_conversations_of_texts_are_written_at_once() -> None:
    turns = [made(kind) for kind in ("system", "user", "assistant", "user-a")]
    assert write_texts(turns, "messages", CHAT) == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    ]
    assert turns[1].compact == "Hi"  # not expanded


@pytest.mark.parametrize("last", ["empty", "assistant", "silent", "call", "thought", "system"])
def test_other_conversations_are_left_to_the_general_writer(last: str) -> None:
    assert write_texts([made("user"), made(last)], "messages", CHAT) is None
    assert write_texts([made("user"), whole(made("user"))], "messages", CHAT) is None
    stated = made("assistant")
    assert stated.parts
    assert write_texts([stated, made("user")], "messages", CHAT) is None
