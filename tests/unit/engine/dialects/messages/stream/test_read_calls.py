"""Calls of a Messages stream and their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import (
    BlockStart,
    Delta,
    Error,
    Finish,
)
from support import canonical
from support.messages_frames import (
    LAST,
    START,
    args,
    closed,
    context,
    read,
    stopped,
    tool,
)


def test_T01_T03_interleaved_calls_by_their_own_index() -> None:
    events = read(START, tool(1, "b", "g"), tool(0), args(0, "{"), args(1, "[1"), args(0, "}"), args(1, "]"), eof=False)
    assert events[1:] == [
        BlockStart(0, "tool", "b", "g"),
        BlockStart(1, "tool", "toolu_a", "f"),
        Delta(1, "{"),
        Delta(0, "[1"),
        Delta(1, "}"),
        Delta(0, "]"),
    ]


@pytest.mark.parametrize(
    ("given", "fragments", "expected"),
    [
        ({"city": "Oslo é"}, [], '{"city":"Oslo é"}'),
        ({"city": "Oslo"}, ["", '{"a"', ":1}"], '{"a":1}'),
        ('{"a": 1}', [], '{"a": 1}'),
        ({}, [], ""),
    ],
)
def test_T04_arguments_in_the_start_count_unless_fragments_follow(
    given: Any, fragments: list[str], expected: str
) -> None:
    events = read(START, tool(0, given=given), *(args(0, f) for f in fragments), closed(0), stopped("tool_use"), LAST)
    assert canonical.check(events).calls[0].arguments == expected


def test_T06_a_finished_call_whose_arguments_are_not_json_never_finishes() -> None:
    events = read(START, tool(0), args(0, '{"pa'), closed(0), stopped("tool_use"), LAST)
    assert isinstance(events[-1], Error)
    assert "not whole JSON" in events[-1].failure.message
    assert not any(isinstance(event, Finish) for event in events)
    cut = read(START, tool(0), args(0, '{"pa'), closed(0), stopped("max_tokens"), LAST)
    assert canonical.check(cut).finish == "length"


def test_names_that_were_renamed_on_the_way_there_come_back() -> None:
    events = read(START, tool(0, name="mcp_x"), eof=False, into=context(names={"mcp_x": "mcp.x"}))
    assert events[1] == BlockStart(0, "tool", "toolu_a", "mcp.x")
