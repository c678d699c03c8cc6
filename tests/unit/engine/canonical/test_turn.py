"""Turns answer questions about their parts."""

from __future__ import annotations

from dragoman.canonical.parts import Image, Part, Reasoning, Text, ToolCall, ToolResult, Url
from dragoman.canonical.turn import Role, Turn


def turn(*parts: Part, role: Role = "assistant") -> Turn:
    return Turn(role, list(parts))


CALLS = (Reasoning("why"), Text("go"), ToolCall("c1", "f", "{}", ("a",)), ToolCall("c2", "g", "{}", ("b",)))


def test_a_turn_of_empty_texts_is_empty() -> None:
    for parts, empty in (
        ((), True),
        ((Text(""),), True),
        ((Text(""), Text("")), True),
        ((Text(""), Text("x")), False),
        ((Image(Url("u")),), False),
    ):
        assert turn(*parts).is_empty() is empty
        assert turn(*parts).has_content() is not empty


def test_results_are_no_content() -> None:
    results = turn(ToolResult("c1", "ok"), Text(""), ToolResult("c2", "ok"), role="user")
    assert results.has_results()
    assert not results.has_content()
    assert results.result_ids() == [(0, "c1"), (2, "c2")]
    results.parts.append(Text("x"))
    assert results.has_content()
    assert not turn(*CALLS).has_results()


def test_calls_and_results_are_renamed() -> None:
    calls, results = turn(*CALLS), turn(ToolResult("c1", "ok"), role="user")
    assert calls.call_ids() == ["c1", "c2"]
    calls.rename_calls(lambda call_id, at: f"{call_id}-{at[0]}")
    results.rename_results(str.upper)
    assert calls.call_ids() == ["c1-a", "c2-b"]
    assert results.result_ids() == [(0, "C1")]


def test_parts_are_dropped_by_their_places() -> None:
    calls = turn(*CALLS)
    assert calls.has_reasoning()
    assert calls.reasoning_at(0).text == "why"
    calls.drop_parts([0, 2])
    assert not calls.has_reasoning()
    assert [type(part) for part in calls.parts] == [Text, ToolCall]


def test_a_turn_with_parts_is_not_compact() -> None:
    assert turn(*CALLS).compact is None
    assert turn(ToolResult("c", "ok"), role="user").compact is None
