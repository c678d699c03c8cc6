"""One look at a conversation's calls spares the passes that would find nothing: they are asked all the same here."""

from __future__ import annotations

import copy
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.parts import Part, Text, ToolCall, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Role, Turn
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.policies import repair_history
from dragoman.tools.duplicate_call_ids import deduplicate_call_ids, pair_calls
from support.compact_turns import assistant_turn, result_turn

AT = ("messages", 0)


def calls(ids: str, short: bool) -> Turn:
    """A turn of the assistant's with a call for each letter."""
    if short:
        return assistant_turn(AT, [], "Let me see.", AT, [(call_id, "f", "{}", AT) for call_id in ids])
    return Turn("assistant", [Text("Let me see."), *(ToolCall(call_id, "f", "{}", AT) for call_id in ids)], AT)


def results(ids: str, short: bool) -> Turn:
    """A user's turn with a result for each letter."""
    if short:
        return result_turn(AT, [(call_id, "done", AT, False) for call_id in ids])
    parts: list[Part] = [ToolResult(call_id, "done", AT) for call_id in ids]
    return Turn("user", [*parts, Text("and?")], AT)


def words(role: Role) -> Turn:
    return Turn(role, [Text("mind this")], AT)


ids = st.text("abcde", max_size=3)
lone = st.one_of(
    st.builds(calls, ids, st.booleans()),
    st.builds(results, ids, st.booleans()),
    st.sampled_from((words("user"), words("instruction"))),
)
exchange = st.builds(
    lambda ids, there, back: [calls(ids, there), results(ids, back)], ids, st.booleans(), st.booleans()
)
histories = st.lists(exchange | lone.map(lambda turn: [turn]), max_size=6).map(lambda groups: list(chain(*groups)))


@given(histories, st.sampled_from(("repair", "strip", "reject")))
def test_a_settled_history_has_nothing_to_repair(turns: list[Turn], orphans: Any) -> None:
    if pair_calls(turns).complete:
        request, losses = Request("chat", "m", copy.deepcopy(turns)), Losses()
        repair_history(request, Knobs(orphans=orphans), losses)
        assert request.turns == turns
        assert not len(losses)


@given(histories)
def test_distinct_calls_keep_their_ids(turns: list[Turn]) -> None:
    distinct = pair_calls(turns).distinct
    request, losses = Request("chat", "m", copy.deepcopy(turns)), Losses()
    deduplicate_call_ids(request, losses)
    assert (request.turns == turns) is distinct
    assert (len(losses) == 0) is distinct


@pytest.mark.parametrize("short", [True, False])
def test_an_agents_history_is_settled(short: bool) -> None:
    stated = words("user")
    turns = [
        stated,
        calls("a", short),
        results("a", short),
        calls("bc", short),
        results("b", short),
        results("c", short),
    ]
    assert pair_calls([*turns, calls("", short), stated])[:3] == (True, True, ["a", "b", "c"])
    assert pair_calls(turns).complete
    assert not pair_calls(turns[:-1]).complete
    assert not pair_calls(turns[1:2] + turns[3:]).complete


@pytest.mark.parametrize("short", [True, False])
def test_as_many_results_as_calls_are_not_enough(short: bool) -> None:
    late = [calls("a", short), words("user"), calls("b", short), results("ab", short)]
    crossed = [calls("a", short), results("b", short), calls("b", short), results("a", short)]
    twice = [calls("aa", short), results("aa", short)]
    assert [pair_calls(turns)[:2] for turns in (late, crossed, twice)] == [(True, False), (True, False), (False, False)]
    assert pair_calls(crossed).ids == ["a", "b", "b", "a"]
