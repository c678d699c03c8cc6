"""Turns in the compact form: they equal the turns that they stand for, and become those when their parts are read."""

from __future__ import annotations

import copy

from dragoman.canonical.parts import Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.turn import Role, Turn
from support.compact_turns import assistant_turn, result_turn, text_turn

AT = ("messages", 3)
BLOCK = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
CALL = ("toolu_1", "f", '{"a":1}', (*AT, "content", 2))
RESULT = ("toolu_1", "ok", ("messages", 4, "content", 0), True)


def stated() -> Turn:
    return assistant_turn(
        AT, [("Hm", (*AT, "content", 0), "messages", "c2ln", False, BLOCK, None)], "Hi", (*AT, "content", 1), [CALL]
    )


WHOLE = Turn(
    "assistant",
    [
        Reasoning("Hm", (*AT, "content", 0), "messages", "c2ln", native=BLOCK),
        Text("Hi", (*AT, "content", 1)),
        ToolCall("toolu_1", "f", '{"a":1}', (*AT, "content", 2)),
    ],
    AT,
)
RESULTS = Turn("user", [ToolResult("toolu_1", "ok", ("messages", 4, "content", 0), True)], ("messages", 4))


def asked(text: str = "Hi", role: Role = "user") -> Turn:
    return text_turn(role, text, AT, "top")


def test_an_assistant_turn_holds_the_parts_of_a_whole_one() -> None:
    turn = stated()
    assert turn.compact is not None
    assert turn.parts == WHOLE.parts
    assert turn.compact is None
    assert turn.parts is turn.parts


def test_a_turn_of_results_holds_the_parts_of_a_whole_one() -> None:
    turn = result_turn(("messages", 4), [RESULT])
    assert turn.compact == [RESULT]
    assert turn.parts == RESULTS.parts
    assert turn.compact is None


def test_what_was_changed_counts_from_then_on() -> None:
    turn = stated()
    turn.parts.append(Text("and"))
    assert [type(part) for part in turn.parts] == [Reasoning, Text, ToolCall, Text]
    turn.parts = []
    assert turn.parts == []
    results = result_turn(AT, [RESULT])
    results.parts = [Text("none")]
    assert results.compact is None
    assert results.parts == [Text("none")]


def test_turns_in_short_equal_whole_ones() -> None:
    whole, short = WHOLE, stated()
    assert short == whole
    assert whole == short
    assert short == stated()
    results, given = RESULTS, result_turn(("messages", 4), [RESULT])
    assert given == results
    assert results == given
    assert stated() != given
    assert stated() != assistant_turn(AT, [], "Hi", AT, [])
    assert stated() != "Hi"


def test_a_text_may_begin_a_message_and_a_turn_be_a_bare_string() -> None:
    turn = assistant_turn(AT, [], "Hi", AT, [], apart=True, plain=True)
    assert turn == Turn("assistant", [Text("Hi", AT, apart=True)], AT, plain=True)
    assert assistant_turn(AT, [], None, (), []).parts == []
    assert assistant_turn(AT, [], "", AT, []).parts == []


def test_the_other_fields_are_those_of_any_turn() -> None:
    for turn, role in ((stated(), "assistant"), (result_turn(AT, []), "user")):
        assert (turn.role, turn.at, turn.original, turn.plain, turn.name) == (role, AT, "", False, None)


def test_copies_are_equal_and_apart() -> None:
    for turn in (stated(), result_turn(("messages", 4), [RESULT]), asked()):
        twin = copy.deepcopy(turn)
        assert twin == turn
        twin.parts.pop()
        assert twin != turn


def test_a_turn_of_one_text_holds_the_part_of_a_whole_one() -> None:
    turn = asked()
    assert turn.compact == "Hi"
    assert turn == Turn("user", [Text("Hi", (*AT, "content"))], AT, "top", True)
    assert turn.compact is None  # the comparison has expanded it
    assert turn.parts is turn.parts
    whole = Turn("instruction", [Text("Hi", (*AT, "content", 0))], AT)
    assert text_turn("instruction", "Hi", AT, plain=False) == whole
    assert text_turn("user", "Hi", ("input",)) == Turn("user", [Text("Hi", ("input",))], ("input",), plain=True)


def test_a_turn_of_one_text_answers_as_the_whole_one_does() -> None:
    for text in ("Hi", ""):
        short, expanded, whole = asked(text), asked(text), Turn("user", [Text(text, AT)], AT)
        assert expanded.parts == [Text(text, (*AT, "content"))]
        for turn in (short, expanded):
            assert turn.is_empty() is whole.is_empty()
            assert turn.has_content() is whole.has_content()
            assert turn.has_results() is whole.has_results()
            assert turn.result_ids() == whole.result_ids()
        assert short.compact == text
    turn = asked()
    turn.parts = [ToolResult("toolu_1", "ok")]
    assert turn.has_results()
    assert turn.result_ids() == [(0, "toolu_1")]
    assert not turn.has_content()
