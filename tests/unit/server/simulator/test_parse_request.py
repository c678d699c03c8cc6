"""Two calls in one simulated reply: each whole before the next, as the vendors stream them, or side by side."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.simulator.parse_request import Offer, RequestTurn
from dragoman_server.simulator.scenarios import scenario_for
from dragoman_server.simulator.steps import Finish, Text, ToolArgs, ToolEnd, ToolStart

OFFERS = (Offer("one", {"type": "object"}), Offer("two", {"type": "object"}))
BODY: dict[str, Any] = {}


def calls(model: str, **turn: Any) -> list[int]:
    steps = scenario_for(RequestTurn(model, BODY, "Hi", **turn)).steps
    return [step.call for step in steps if isinstance(step, ToolStart | ToolArgs | ToolEnd)]


def test_each_call_is_whole_before_the_next() -> None:
    in_turn, side_by_side = calls("sim-parallel-in-turn", offers=OFFERS), calls("sim-parallel", offers=OFFERS)
    assert set(in_turn) == {0, 1}
    assert in_turn == sorted(side_by_side)
    assert side_by_side != sorted(side_by_side)


def test_the_words_stand_before_the_calls_and_the_end_behind_them() -> None:
    steps = scenario_for(RequestTurn("sim-parallel-in-turn", BODY, "Hi", offers=OFFERS)).steps
    kinds = [type(step) for step in steps]
    assert kinds[0] is Text
    assert kinds[-2:] == [ToolEnd, Finish]
    assert kinds.index(ToolStart) > max(at for at, kind in enumerate(kinds) if kind is Text)


@pytest.mark.parametrize("turn", [{"results": ("sunny",)}, {"may_call": False}])
def test_without_a_call_it_is_the_same_reply(turn: dict[str, Any]) -> None:
    found = [scenario_for(RequestTurn(model, BODY, "Hi", **turn)) for model in ("sim-parallel-in-turn", "sim-parallel")]
    assert found[0] == found[1]
