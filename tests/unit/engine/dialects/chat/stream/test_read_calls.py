"""Calls of a Chat stream: fragments, ids, names and ends."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    Event,
    Start,
)
from dragoman.dialects.directions import direction
from dragoman.knobs import Knobs
from dragoman.translate_request import Translation
from support import canonical
from support.chat_chunks import BEFORE, HEL, ROLE, Json, call, context, failed, piece, read, tool


def test_T01_a_call_without_a_name_never_becomes_a_block() -> None:
    events = read(ROLE, HEL, tool(index=0, id="a", function={"arguments": "{}"}), piece({}, "tool_calls"), "[DONE]")
    assert "tool call without a name" in failed(events, *BEFORE, BlockEnd(0))


@pytest.mark.parametrize(
    ("second", "message"),
    [(call(0, "b", "f"), "not whole JSON"), (call(0, "a", "g"), "renamed the tool call 'f' to 'g'")],
)
def test_another_id_or_name_at_the_same_index_is_a_breach_that_leaves_the_call_open(second: Json, message: str) -> None:
    events = read(ROLE, call(0, "a", "f", '{"x"'), second, piece({}, "tool_calls"), "[DONE]")
    before: list[Event] = [Start("chatcmpl-x", "m", None, 1), BlockStart(0, "tool", "a", "f"), Delta(0, '{"x"')]
    assert message in failed(events, *before)


def test_T01_T03_fragments_go_to_their_own_call() -> None:
    frames = [call(1, "b", "g"), call(0, "a", "f"), tool(index=1, function={"arguments": "{}"})]
    events = read(ROLE, *frames, tool(index=0, function={"arguments": "{} "}), piece({}, "tool_calls"), "[DONE]")
    assert events[1:6] == [
        BlockStart(0, "tool", "b", "g"),
        BlockStart(1, "tool", "a", "f"),
        Delta(0, "{}"),
        BlockEnd(0),
        Delta(1, "{} "),
    ]


def test_T05_without_an_index_fragments_follow_the_call_named_last() -> None:
    def bare(arguments: str, **more: str) -> Json:
        return tool(**more, function={"arguments": arguments})

    first = tool(id="a", type="function", function={"name": "f", "arguments": ""})
    second = tool(id="b", type="function", function={"name": "g", "arguments": ""})
    frames = [first, bare('{"a":[1'), second, bare('{"b":[2'), bare(",3]}"), bare(",4", id="a"), bare(",5]}")]
    result = canonical.check(read(ROLE, *frames, piece({}, "tool_calls"), "[DONE]"))
    assert [(c.id, c.arguments) for c in result.calls] == [("a", '{"a":[1,4,5]}'), ("b", '{"b":[2,3]}')]
    assert result.finish == "tool_calls"


def test_T04_whole_calls_in_one_chunk_keep_their_arguments() -> None:
    calls = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": f"{{}}{n * ' '}"}}
        for n in range(3)
    ]
    result = canonical.check(read(ROLE, piece({"tool_calls": calls}), piece({}, "tool_calls"), "[DONE]"))
    assert [(c.id, c.arguments) for c in result.calls] == [("c0", "{}"), ("c1", "{} "), ("c2", "{}  ")]


def test_a_call_without_an_id_is_given_one_that_is_stable() -> None:
    frames = (ROLE, tool(index=0, function={"name": "f", "arguments": "{}"}), piece({}, "tool_calls"))
    assert read(*frames) == read(*frames)
    assert read(*frames)[1] == BlockStart(0, "tool", "call_x_0", "f")


def test_T06_a_finished_call_whose_arguments_are_not_json_is_never_closed_as_whole() -> None:
    events = read(ROLE, HEL, call(0, "a", "f", '{"pa'), piece({}, "tool_calls"), "[DONE]")
    before: list[Event] = [BlockEnd(0), BlockStart(1, "tool", "a", "f"), Delta(1, '{"pa')]
    assert "not whole JSON" in failed(events, *BEFORE, *before)


def test_a_fragment_of_a_call_that_has_ended_is_an_error_for_every_client() -> None:
    frames = [ROLE, call(0, "a", "f", "{}"), piece({}, "tool_calls"), tool(index=0, function={"arguments": "x"})]
    events = read(*frames)
    assert "after its finish_reason" in failed(events, *events[:-1])
    assert events[-2] == BlockEnd(0)
    raw = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    for order in ("auto", "interleave", "sequential"):
        into = context(knobs=Knobs(block_order=order))
        machine = Translation(direction("messages", "chat"), b"", True, into, "m").stream_machine()
        assert b"after its finish_reason" in machine.feed(raw)
        assert machine.done
