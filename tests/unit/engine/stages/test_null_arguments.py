"""Nulls that a tool's schema does not take leave calls, in streams of any split and in whole replies (knob)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import LossCode, direction, translate
from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Event, text_run
from dragoman.canonical.request import Tool
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.losses import Losses
from dragoman.stages.null_arguments import ArgumentTrimmer, NullTrimmer, nullable
from support import samples
from support.directions import Json

STRIP = Knobs(null_arguments="strip")
TEXT = {"type": "string"}


def trimmed(text: str, *cuts: int, takes: frozenset[str] = frozenset()) -> tuple[str, list[str]]:
    """Return what is left of arguments that come in pieces, and the paths of the losses."""
    losses = Losses()
    trimmer = ArgumentTrimmer("read", takes, losses)
    places = [0, *sorted(cuts), len(text)]
    left = "".join(trimmer.feed(text[a:b]) for a, b in pairwise(places)) + trimmer.finish()
    return left, [row.path for row in losses.rows]


@pytest.mark.parametrize(
    ("given_", "left"),
    [
        ('{"a":null}', "{}"),
        ('{"a":null,"b":1}', '{"b":1}'),
        ('{"b":1,"a":null}', '{"b":1}'),
        ('{"b":1, "a" : null , "c":[null,{"d":null}]}', '{"b":1, "c":[null,{"d":null}]}'),
        ('{"a":"null","b":"\\"}, ,null"}', '{"a":"null","b":"\\"}, ,null"}'),
        (' {"a": nullx}', ' {"a": nullx}'),
        ('["a",null]', '["a",null]'),
        ("", ""),
        ('{"a":nul', '{"a":nul'),
        ('{"b":1,"a', '{"b":1,"a'),
        ('{"b":1,"a":null', '{"b":1,"a":null'),
        ('{"b":1,"a":null ', '{"b":1'),
        ("{}", "{}"),
    ],
)
def test_only_null_parameters_are_left_out(given_: str, left: str) -> None:
    assert trimmed(given_)[0] == left
    for cut in range(len(given_)):
        assert trimmed(given_, cut)[0] == left, cut


def test_a_parameter_that_takes_null_keeps_it() -> None:
    left, paths = trimmed('{"a":null,"b":null}', takes=frozenset("a"))
    assert (left, paths) == ('{"a":null}', ["read.b"])


def test_a_name_that_never_ends_is_passed_on() -> None:
    text = '{"a":null,"' + "x" * 2000
    assert trimmed(text, 5, 300, 1500)[0] == '{"' + "x" * 2000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=5), VALUES, max_size=6),
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]),
    st.booleans(),
)
def test_what_is_left_is_the_object_without_its_nulls(
    value: dict[str, Any], cuts: list[int], separators: tuple[str, str], ascii_only: bool
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    left, paths = trimmed(text, *(cut for cut in cuts if cut <= len(text)))
    assert json.loads(left) == {name: item for name, item in value.items() if item is not None}
    assert len(paths) == sum(item is None for item in value.values())
    if not paths:
        assert left == text


def tool(**properties: Any) -> Tool:
    return Tool("function", "read", schema={"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        (TEXT, False),
        ({"type": ["string", "null"]}, True),
        ({"type": "null"}, True),
        ({"type": "string", "nullable": True}, True),
        ({"anyOf": [TEXT, {"type": "null"}]}, True),
        ({"anyOf": [TEXT, {"type": "integer"}]}, False),
        ({"enum": ["a", None]}, True),
        ({"enum": ["a"]}, False),
        ({"const": "a"}, False),
        ({"$ref": "#/$defs/x"}, True),
        ({}, True),
        (True, True),
    ],
)
def test_the_schema_names_which_parameters_take_null(schema: Any, takes: bool) -> None:
    assert nullable([tool(a=schema)]) == ({"read": frozenset("a")} if takes else {})


def test_a_tool_without_parameters_of_its_own_takes_anything() -> None:
    assert nullable([Tool("function", "a"), Tool("function", "b", schema={"type": "object"})]) == {
        "a": None,
        "b": None,
    }


def test_events_beside_the_call_are_left_alone() -> None:
    trimmer = NullTrimmer({}, Losses())
    stated: list[Event] = [text_run(0, "null", ["null"], [b'"null"'])]
    assert trimmer.feed(stated) is stated
    free: list[Event] = [BlockStart(1, "tool", "c", "patch", custom=True), Delta(1, '{"a":null}'), BlockEnd(1)]
    assert trimmer.feed(list(free)) == free
    kept = text_run(2, '"b":"x', ['"b"', ':"x'], [b'"\\"b\\""', b'":\\"x"'])
    out = trimmer.feed(
        [
            BlockStart(2, "tool", "d", "read"),
            Delta(2, '{"a":null,"b":"'),
            text_run(2, "yz", kept.pieces, kept.encoded),
        ]
    )
    assert out[1] == Delta(2, '{"b":"')
    assert out[2].text == "yz"  # type: ignore[union-attr]  # what is passed on whole stays what it was


def call(upstream_arguments: str, *, stream: bool, knobs: Knobs = STRIP) -> tuple[Json, dict[LossCode, int]]:
    """The arguments that a Messages client gets for a Chat upstream's call, and the losses."""
    body = samples.request(
        Dialect.MESSAGES,
        stream=stream,
        tools=[{"name": "read", "input_schema": {"type": "object", "properties": {"path": TEXT, "limit": TEXT}}}],
    )
    translation = translate(direction("messages", "chat"), json.dumps(body).encode(), knobs=knobs)
    function = {"name": "read", "arguments": upstream_arguments}
    if not stream:
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
        reply = {"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        (block,) = json.loads(translation.reply(json.dumps(reply).encode()))["content"]
        return block["input"], translation.losses.counts
    machine = translation.stream_machine()
    out = machine.feed(samples.chat_frame({"role": "assistant", "content": ""}))
    out += machine.feed(
        samples.chat_frame(
            {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "read", "arguments": ""}}]}
        )
    )
    for char in upstream_arguments:
        out += machine.feed(samples.chat_frame({"tool_calls": [{"index": 0, "function": {"arguments": char}}]}))
    out += machine.feed(samples.chat_frame({}, "tool_calls") + b"data: [DONE]\n\n") + machine.finish()
    (noted,) = samples.judge(Dialect.MESSAGES, out).calls
    return json.loads(noted.arguments), translation.losses.counts


@pytest.mark.parametrize("stream", [True, False])
def test_a_messages_client_is_spared_the_nulls(stream: bool) -> None:
    """Claude Code answers `null` for an optional parameter with `InputValidationError`: the call is lost."""
    arguments, counts = call('{"path":"a.txt","limit":null}', stream=stream)
    assert arguments == {"path": "a.txt"}
    assert counts[LossCode.NULL_ARGUMENT] == 1
    arguments, counts = call('{"path":"a.txt","limit":null}', stream=stream, knobs=Knobs())
    assert arguments == {"path": "a.txt", "limit": None}
    assert LossCode.NULL_ARGUMENT not in counts
