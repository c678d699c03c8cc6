"""Results of tools stand first, in the order of their calls (mapping §13)."""

from __future__ import annotations

import pytest

from dragoman.canonical.parts import Text, ToolResult
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses
from dragoman.policies import put_results_first
from support.canonical_turns import assistant, call, request, result, system, translated, user


def texts(turn: Turn) -> list[str]:
    return [part.text for part in turn.parts if isinstance(part, Text)]


def test_seed_S2_23_parallel_results_stand_together_right_behind_their_calls() -> None:
    made = request(
        user("go"),
        assistant(call("a"), call("b")),
        user("before", result("a")),
        system("mind"),
        user(result("b"), "after"),
    )
    losses = Losses()
    put_results_first(made, losses)
    assert [part.call_id for part in made.turns[2].parts if isinstance(part, ToolResult)] == ["a", "b"]
    assert len(made.turns[2].parts) == 2
    assert [texts(turn) for turn in made.turns[3:]] == [["before"], ["mind"], ["after"]]
    assert losses.counts == {LossCode.BLOCK_ORDER: 1, LossCode.SYSTEM_REORDERED: 1}


@pytest.mark.parametrize(
    "turns",
    [
        [user("go"), assistant(call()), user(result(), "thanks"), user("more")],
        [user("go"), assistant(call("a"), call("b")), user(result("a")), user(result("b")), system("x"), user("y")],
        [user("hi"), system("late"), user("there")],
    ],
)
def test_what_is_in_order_stays_as_it_is(turns: list[Turn]) -> None:
    made, losses = request(*turns), Losses()
    put_results_first(made, losses)
    assert made.turns == turns
    assert not losses


RESPONSES_BODY = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in "ab"
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "1"},
        {"role": "user", "content": "hurry"},
        {"role": "tool", "tool_call_id": "call_b", "content": "2"},
    ],
}


@pytest.mark.parametrize(("first", "order"), [(True, "ffffm"), (False, "fffmf")])
def test_a_responses_upstream_gets_its_results_first_if_it_has_to(first: bool, order: str) -> None:
    body, made = translated("chat", "responses", RESPONSES_BODY, flags={"results_first": first})
    kinds = "".join(item["type"][0] for item in body["input"])
    assert kinds == "m" + order
    assert (LossCode.BLOCK_ORDER in made.losses.counts) is first


def test_a_messages_upstream_always_has_to_and_it_is_a_loss() -> None:
    body, made = translated("chat", "messages", RESPONSES_BODY)
    assert [block["type"] for block in body["messages"][-1]["content"]] == ["tool_result", "tool_result", "text"]
    assert [(row.code, row.path) for row in made.losses.rows] == [(LossCode.BLOCK_ORDER, "messages[3]")]
