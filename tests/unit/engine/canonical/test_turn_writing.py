"""Turns of a single text, which are written in the compact form, next to the same turns written part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.canonical.parts import Native, Part, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.canonical.turn import Turn
from dragoman.dialects.messages.request.write import write_request as write_messages
from dragoman.dialects.responses.request.write import write_request as write_responses
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.names import NameTable
from dragoman.wire.json_codec import dumps, loads
from support.compact_turns import assistant_turn, result_turn

MESSAGES = builtin_profile("messages")
RESPONSES = builtin_profile("responses")
WRITERS = {"messages": write_messages, "responses": write_responses}
MARK: Json = {"ttl": None}
DROPPED = LossCode.VENDOR_BLOCK


def user(text: str, number: int, cache: Json | None = None, *, plain: bool = True) -> Turn:
    at = ("messages", number)
    return Turn("user", [Text(text, (*at, "content"), cache)], at, "", plain)


def assistant(text: str, number: int) -> Turn:
    at = ("messages", number)
    return Turn("assistant", [Text(text, (*at, "content"))], at, "", True)


def system(text: str, number: int) -> Turn:
    at = ("messages", number)
    return Turn("instruction", [Text(text, (*at, "content"))], at, "system", True)


def call(number: int) -> Turn:
    return assistant_turn(("messages", number), [], "So:", (), [(f"c{number}", "f", "{}", ("messages", number))])


def result(number: int, cache: Json | None = None) -> Turn:
    at, call_id = ("messages", number), f"c{number - 1}"
    if cache is not None:  # never in the compact form
        return Turn("user", [ToolResult(call_id, "out", at, False, cache)], at)
    return result_turn(at, [(call_id, "out", at, False)])


def whole(turn: Turn) -> Turn:
    """Return the same turn, with a part next to the others that is dropped: nothing recognises it as a short one."""
    beside = Native("elsewhere", "x", {}, DROPPED, turn.at)
    parts: list[Part] = [*turn.parts]
    if turn.role != "instruction":
        parts.append(beside)
    return Turn(turn.role, parts, turn.at, turn.original, turn.plain, turn.name)


def write(
    dialect: str, turns: list[Turn], profile: Profile, knobs: Knobs | None = None
) -> tuple[Any, list[tuple[str, str]]]:
    losses = Losses()
    body = WRITERS[dialect](
        Request("chat", "client-model", turns, max_tokens=9000),
        model="claude-opus-5",
        profile=profile,
        knobs=knobs or Knobs(),
        losses=losses,
        names=NameTable(profile.tool_name_max),
    )
    content = loads(dumps(body["messages" if dialect == "messages" else "input"]))
    return content, [(row.code, row.path) for row in losses.rows if row.code is not DROPPED]


def history(marked: int) -> list[Turn]:
    """A talk and a tool loop, with a cache mark on the turn of that number; -1 for none."""
    marks = [MARK if number == marked else None for number in range(10)]
    return [
        user("hello", 0, marks[0]),
        assistant("hi", 1),
        user("in parts", 2, marks[2], plain=False),
        call(3),
        result(4, marks[4]),
        assistant("one", 5),
        assistant(" \n", 6),
        user(" ", 7),
        user("then", 8, marks[8]),
        user("this", 9, marks[9]),
    ]


@pytest.mark.parametrize("marked", [-1, 0, 2, 4, 8, 9])
@pytest.mark.parametrize("explicit_cache", [True, False])
@pytest.mark.parametrize("text_parts", [True, False])
@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_a_lonely_text_is_written_as_any_other(
    dialect: str, text_parts: bool, explicit_cache: bool, marked: int
) -> None:
    profile = replace(builtin_profile(dialect), text_parts=text_parts, explicit_cache=explicit_cache)
    short = write(dialect, history(marked), profile)
    long, losses = write(dialect, [whole(turn) for turn in history(marked)], profile)
    blank = (LossCode.BLANK_CUT, "messages[7]")
    assert short == (long, losses)
    assert (blank in losses) is (dialect == "messages")


@pytest.mark.parametrize("knobs", [Knobs(demote_reasoning="on"), Knobs(derive_phase="on"), Knobs()])
@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_an_assistant_turn_in_short_is_written_as_a_whole_one(dialect: str, knobs: Knobs) -> None:
    def turns() -> list[Turn]:
        at = ("messages", 1)
        reasonings: list[Any] = [
            ("hm", at, "chat", None, False, None, None),
            ("", at, "chat", "proof", False, None, None),
            ("", at, "chat", None, False, None, None),
        ]
        return [
            user("go", 0),
            assistant_turn(at, reasonings, "So:", at, [("c1", "f", " ", at), ("c2", "f", "", at)]),
        ]

    if dialect == "messages":  # whose upstreams take no arguments of white space
        profile = MESSAGES
        edit = ("", "")
    else:
        profile, edit = RESPONSES, (" ", "")

    def made() -> list[Turn]:
        first, stated = turns()
        assert isinstance(stated.compact, tuple)
        calls = stated.compact[4]
        calls[:] = [(call_id, name, text, at) for (call_id, name, _, at), text in zip(calls, edit, strict=True)]
        results = result_turn(("messages", 2), [(f"c{n}", "out", ("messages", 2), False) for n in (1, 2)])
        return [first, stated, results]

    assert write(dialect, made(), profile, knobs) == write(dialect, [whole(turn) for turn in made()], profile, knobs)


@pytest.mark.parametrize("marked", [0, 4, 9])
def test_marks_give_every_lonely_text_before_and_behind_them_one_shape(marked: int) -> None:
    items, _ = write("responses", history(marked), RESPONSES)
    fields = [
        item["output"] if "output" in item else item["content"]
        for item in items
        if item.get("role") != "assistant" and item["type"] != "function_call"
    ]
    assert {type(field) for field in fields} == {list}
    items, _ = write("responses", history(-1), RESPONSES)
    assert items[0]["content"] == "hello"


def test_what_results_overtake_is_named_by_its_own_path() -> None:
    call_turn = Turn("assistant", [ToolCall("c1", "f", "{}", ("messages", 1))], ("messages", 1))
    stated = user("wait", 3)
    answer = Turn("user", [ToolResult("c1", "out", ("messages", 4))], ("messages", 4))
    messages, losses = write("messages", [user("go", 0), call_turn, system("mind", 2), stated, answer], MESSAGES)
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "text"]
    assert losses == [(LossCode.SYSTEM_REORDERED, "messages[2]"), (LossCode.BLOCK_ORDER, "messages[3]")]


def test_a_bare_string_that_is_to_be_continued_loses_its_trailing_space() -> None:
    turns = [user("go", 0), assistant("So \n", 1)]
    messages, losses = write("messages", turns, MESSAGES, Knobs(prefill="pass"))
    assert messages[1] == {"role": "assistant", "content": "So"}
    assert losses == [(LossCode.BLANK_CUT, "messages[1]")]
    messages, losses = write("messages", turns, MESSAGES, Knobs(prefill="drop"))
    assert messages == [{"role": "user", "content": "go"}]
    assert losses == [(LossCode.CONTINUATION, "messages[1]")]
