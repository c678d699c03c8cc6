"""Calls without results and results without calls."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dragoman.canonical.parts import Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.repair_orphan_calls import NO_RESULT, repair_history


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id, "f", "{}", ("messages", 1, "tool_calls", 0))


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id, text, ("messages", 2))


def user(*parts: Part | str) -> Turn:
    return Turn("user", [Text(p) if isinstance(p, str) else p for p in parts])


def assistant(*parts: Part | str) -> Turn:
    return Turn("assistant", [Text(p) if isinstance(p, str) else p for p in parts])


def system(text: str) -> Turn:
    return Turn("instruction", [Text(text)])


def repaired(turns: list[Turn], orphans: Any = "repair") -> tuple[list[Turn], Losses]:
    request = Request("chat", "m", copy.deepcopy(turns))
    losses = Losses()
    repair_history(request, Knobs(orphans=orphans), losses)
    return request.turns, losses


SOUND: list[list[Turn]] = [
    [user("hi")],
    [user("hi"), assistant("hello"), user("bye")],
    [user("hi"), assistant(call("a")), user(result("a"))],
    [user("hi"), assistant(call("a"), call("b")), user(result("b")), user(result("a")), user("more")],
    [user("hi"), assistant(call("a")), system("mind this"), user(result("a"))],
    [user("hi"), assistant(call("a")), assistant("a broken attempt"), user(result("a"))],
    [user("hi"), assistant(call("a")), user(""), user(result("a"))],
    # The same id again in a later turn, as some servers count them.
    [user("hi"), assistant(call("0")), user(result("0")), assistant(call("0")), user(result("0"))],
]


@pytest.mark.parametrize("turns", SOUND)
@pytest.mark.parametrize("orphans", ["repair", "strip", "reject"])
def test_a_sound_history_is_left_alone(turns: list[Turn], orphans: str) -> None:
    after, losses = repaired(turns, orphans)
    assert after == turns
    assert not len(losses)


@pytest.mark.parametrize("orphans", ["repair", "strip", "reject"])
def test_calls_at_the_very_end_are_no_orphans(orphans: str) -> None:
    turns = [user("hi"), assistant(call("a")), user(result("a")), assistant("now", call("b"))]
    after, losses = repaired(turns, orphans)
    assert after == turns
    assert not len(losses)


def test_T41_a_call_without_result_gets_an_error_result_right_after_its_turn() -> None:
    after, losses = repaired([user("hi"), assistant(call("a")), user("never mind"), assistant("ok"), user("next")])
    assert [turn.role for turn in after] == ["user", "assistant", "user", "user", "assistant", "user"]
    (added,) = after[2].parts
    assert isinstance(added, ToolResult)
    assert (added.call_id, added.content, added.is_error) == ("a", NO_RESULT, True)
    assert losses.counts == {LossCode.ORPHAN_REPAIRED: 1}
    assert losses.rows[0].path == "messages[1].tool_calls[0]"


def test_the_missing_one_of_parallel_results_joins_the_others() -> None:
    after, losses = repaired([user("hi"), assistant(call("a"), call("b"), call("c")), user(result("a"), "go on")])
    ids = [part.call_id for part in after[2].parts if isinstance(part, ToolResult)]
    assert ids == ["a", "b", "c"]
    assert isinstance(after[2].parts[-1], Text)
    assert losses.counts[LossCode.ORPHAN_REPAIRED] == 2


def test_several_broken_places_are_repaired_each_at_its_own() -> None:
    after, _ = repaired(
        [user("1"), assistant(call("a")), user("2"), assistant(call("b")), user("3"), assistant("4"), user("5")]
    )
    answered = [(i, p.call_id) for i, turn in enumerate(after) for p in turn.parts if isinstance(p, ToolResult)]
    assert answered == [(2, "a"), (5, "b")]


def test_T41_a_repeated_call_id_is_repaired_where_it_is_open() -> None:
    after, _ = repaired([user("1"), assistant(call("0")), user("2"), assistant(call("0")), user(result("0"))])
    assert [isinstance(turn.parts[0], ToolResult) for turn in after] == [False, False, True, False, False, True]


def test_a_result_without_call_is_dropped() -> None:
    after, losses = repaired([user("hi"), assistant("x"), user(result("gone"), "text")])
    assert after[2].parts == [Text("text")]
    assert losses.counts == {LossCode.ORPHAN_DROPPED: 1}


def test_a_second_result_of_one_call_is_dropped() -> None:
    after, losses = repaired([user("hi"), assistant(call("a")), user(result("a", "1")), user(result("a", "2"))])
    assert [p.content for turn in after for p in turn.parts if isinstance(p, ToolResult)] == ["1"]
    assert losses.counts == {LossCode.ORPHAN_DROPPED: 1}


def test_strip_takes_the_call_out_and_makes_signed_thinking_text() -> None:
    signed = Reasoning("because", origin="messages", proof="sig")
    turns = [user("hi"), assistant(signed, "text", call("a"), call("b")), user(result("b"))]
    after, losses = repaired(turns, "strip")
    assert after[1].parts == [Text("because"), Text("text"), call("b")]
    assert losses.counts == {LossCode.ORPHAN_DROPPED: 1, LossCode.THINKING_INVALIDATED: 1}


@pytest.mark.parametrize(
    "turns",
    [[user("hi"), assistant(call("a")), user("x")], [user("hi"), assistant("x"), user(result("a"))]],
)
def test_reject_names_the_clients_field(turns: list[Turn]) -> None:
    with pytest.raises(Unsupported, match=r"^messages\[\d\]"):
        repaired(turns, "reject")


def test_the_repair_of_a_longer_history_extends_that_of_the_shorter_one() -> None:
    turns = [
        user("1"),
        assistant(call("a")),
        user("2"),
        assistant(call("b"), call("c")),
        user(result("b")),
        assistant("3"),
        user(result("a", "too late")),
        user("4"),
        assistant(call("d")),
        user("5"),
    ]
    whole, _ = repaired(turns)
    for length in range(1, len(turns) + 1):
        # A request ends on a user's turn, with all that the user has to state.
        if turns[length - 1].role == "user" and (length == len(turns) or turns[length].role == "assistant"):
            part, _ = repaired(turns[:length])
            assert part == whole[: len(part)]
