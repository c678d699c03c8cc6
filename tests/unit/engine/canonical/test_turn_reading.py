"""Turns that are read in the compact form; everything similar is read as a whole turn, with the same paths."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.request import Request
from dragoman.dialects import Dialect
from dragoman.dialects.all_codecs import CODECS
from dragoman.errors import DragomanError
from dragoman.knobs import DEFAULT_KNOBS
from dragoman.losses import Loss, Losses
from dragoman.reasoning.envelope import Envelope
from support.steps import without_steps

Json = dict[str, Any]

MARK = {"type": "ephemeral"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
REASONING = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
TEXT = {"type": "text", "text": "Hi"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
FUNCTION = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWER = {"role": "tool", "tool_call_id": "t1", "content": "ok"}
ITEM_CALL = {"type": "function_call", "call_id": "t1", "name": "f", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "t1", "output": "ok"}
REASONING_ITEM = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "c2ln"}
SHOWN = {"type": "reasoning_text", "text": "Hm"}
WRAPPED = Envelope("anthropic", "m").wrap("messages", REASONING)
ITEM_CUSTOM = {"type": "custom_tool_call", "call_id": "t0", "name": "g", "input": "x"}
ITEM_WORDS = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Go"}]}
ITEM_TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}


def read(dialect: str, history: list[Any]) -> tuple[Request, list[Loss]] | str:
    """The canonical request and its losses, or the reason why there is no request."""
    losses = Losses()
    first: Json = {"role": "user", "content": "Do it"}
    body: Json = {"model": "m", "max_tokens": 9, "input" if dialect == "responses" else "messages": [first, *history]}
    if dialect != "messages":
        del body["max_tokens"]
    try:
        return CODECS[Dialect(dialect)].read_request(body, losses, DEFAULT_KNOBS), losses.rows
    except DragomanError as error:
        return f"{type(error).__name__}: {error}"


def kinds(dialect: str, history: list[Any]) -> list[str]:
    """Return how each turn after the first was read."""
    found = read(dialect, history)
    assert not isinstance(found, str), found
    request, _ = found
    short: dict[type, str] = {tuple: "spoken", list: "results", str: "text"}
    return [short.get(type(turn.compact), "whole") for turn in request.turns[1:]]


def stated(*content: Json) -> Json:
    return {"role": "assistant", "content": list(content)}


def given(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


SHORT: list[tuple[str, list[Json], list[str]]] = [
    ("messages", [stated(REASONING, TEXT, CALL, {**CALL, "id": "t2"})], ["spoken"]),
    ("messages", [stated(TEXT), given(RESULT)], ["spoken", "results"]),
    ("messages", [given({**RESULT, "is_error": True}, RESULT)], ["results"]),
    ("messages", [given({**RESULT, "is_error": True, "cache_control": MARK}, RESULT)], ["whole"]),
    (
        "messages",
        [stated(CALL), given(RESULT, TEXT), stated(CALL), given(RESULT)],
        ["spoken", "whole", "spoken", "results"],
    ),
    ("chat", [{**ANSWER, "role": "assistant"} | {"content": None}, ANSWER], ["whole", "results"]),
    (
        "chat",
        [
            {"role": "assistant", "content": None, "tool_calls": [FUNCTION]},
            ANSWER,
            {"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "tool_calls": [FUNCTION, FUNCTION]},
            {"role": "assistant", "content": "Hi"},
        ],
        ["spoken", "results", "spoken", "spoken"],
    ),
    ("responses", [REASONING_ITEM, ITEM_TEXT, ITEM_CALL, ITEM_CALL, ITEM_RESULT, ITEM_RESULT], ["spoken", "results"]),
    ("responses", [ITEM_RESULT, {**ITEM_CALL, "id": "fc_1", "status": "completed"}], ["results", "spoken"]),
    ("responses", [ITEM_CALL, {**ITEM_CALL, "namespace": "n"}, ITEM_CALL, ITEM_RESULT], ["whole", "results"]),
    ("responses", [ITEM_RESULT, {**ITEM_RESULT, "output": []}, ITEM_RESULT, ITEM_TEXT], ["whole", "spoken"]),
    ("responses", [{**REASONING_ITEM, "encrypted_content": WRAPPED}, ITEM_CALL, ITEM_RESULT], ["spoken", "results"]),
    ("responses", [{"type": "reasoning", "summary": [], "content": [SHOWN]}, ITEM_TEXT], ["spoken"]),
    (
        "responses",
        [{"role": "assistant", "content": "Hi"}, ITEM_CALL, ITEM_WORDS, ITEM_TEXT],
        ["spoken", "text", "spoken"],
    ),
    ("messages", [given(TEXT), {"role": "user", "content": "Hi"}, given(TEXT, TEXT)], ["text", "text", "whole"]),
    ("chat", [given(TEXT), {"role": "system", "content": "Hi"}, given(TEXT, TEXT)], ["text", "text", "whole"]),
    ("responses", [ITEM_CUSTOM, ITEM_CALL, REASONING_ITEM, ITEM_RESULT, ITEM_CALL], ["whole", "results", "spoken"]),
]


@pytest.mark.parametrize(("dialect", "history", "expected"), SHORT)
def test_steps_are_read_in_short(dialect: str, history: list[Json], expected: list[str]) -> None:
    assert kinds(dialect, history) == expected


def variants(plain: Json, *changes: Json) -> list[Json]:
    """The plain message or item with each of the changes."""
    return [{**plain, **change} for change in changes]


NEAR: dict[str, list[Any]] = {
    "messages": [
        None,
        "x",
        [],
        {"role": "assistant"},
        {**stated(TEXT), "novelty": 1},
        stated(),
        stated(CALL, TEXT),
        stated(TEXT, TEXT),
        stated(TEXT, REASONING),
        stated({**TEXT, "text": ""}),
        stated({**TEXT, "text": 1}),
        stated({**TEXT, "cache_control": MARK}),
        stated({**REASONING, "signature": ""}, TEXT),
        stated({**REASONING, "signature": None}, TEXT),
        stated({**REASONING, "signature": "dgm1.e30"}, TEXT),
        stated({**CALL, "input": []}),
        stated({**CALL, "id": None}),
        stated({**CALL, "name": 1}),
        stated({**CALL, "input": {"a": "\ud83d"}}),
        stated({**CALL, "caller": {"type": "direct"}}),
        stated({"type": "tool_use", "id": "t1", "name": "f"}),
        stated({"type": "redacted_thinking", "data": "x"}),
        stated({"type": "compaction", "content": "so far"}, TEXT),
        given(),
        given(TEXT, RESULT),
        given(TEXT),
        given({**TEXT, "text": ""}),
        given({**TEXT, "text": None}),
        given({**TEXT, "cache_control": MARK}),
        given({"type": "text"}),
        {"role": "user", "content": ["Hi"]},
        given(TEXT, TEXT),
        given({**RESULT, "content": [TEXT]}),
        given({**RESULT, "content": None}),
        given({**RESULT, "tool_use_id": 1}),
        given({**RESULT, "is_error": None}),
        given({**RESULT, "is_error": 1}),
        given({**RESULT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}),
        given({**RESULT, "cache_control": 1}),
        given({**RESULT, "novelty": 1}),
    ],
    "chat": [
        *variants(
            {"role": "assistant", "content": None},
            {},
            {"content": [TEXT]},
            {"content": 1},
            {"tool_calls": ""},
            {"tool_calls": {}},
            {"tool_calls": None},
            {"tool_calls": [1]},
            {"tool_calls": [{**FUNCTION, "id": ""}]},
            {"tool_calls": [{**FUNCTION, "type": "custom", "custom": {"name": "f", "input": "x"}}]},
            {"tool_calls": [{**FUNCTION, "index": 0}]},
            {"tool_calls": [{**FUNCTION, "function": {"name": "", "arguments": ""}}]},
            {"tool_calls": [{**FUNCTION, "function": {"name": "f", "arguments": None}}]},
            {"tool_calls": [{**FUNCTION, "function": {"name": "f", "arguments": {}}}]},
            {"content": "Hi", "refusal": None},
            {"content": "Hi", "reasoning": "Hm"},
            {"content": "Hi", "reasoning_content": ""},
            {"content": "Hi", "reasoning_content": None},
        ),
        *variants(ANSWER, {"content": []}, {"tool_call_id": ""}, {"name": "f"}, {"content": None}),
        *variants(
            {"role": "system", "content": "Go"},
            {},
            {"role": "developer"},
            {"role": "user"},
            {"role": "function"},
            {"role": "critic"},
            {"role": None},
            {"role": []},
            {"content": ""},
            {"content": [TEXT]},
            {"role": "user", "content": [TEXT]},
            {"role": "user", "content": [{**TEXT, "text": ""}]},
            {"role": "user", "content": [{**TEXT, "text": 1}]},
            {"role": "user", "content": [{**TEXT, "cache_control": MARK}]},
            {"role": "user", "content": [{"type": "image_url", "text": "Hi"}]},
            {"role": "user", "content": [TEXT, TEXT]},
            {"role": "critic", "content": [TEXT]},
            {"content": ["Hi"]},
            {"content": []},
            {"content": None},
            {"name": "n"},
            {"cache_control": MARK},
            {"novelty": 1},
        ),
    ],
    "responses": [
        *variants(
            ITEM_CALL,
            {"call_id": ""},
            {"name": None},
            {"arguments": None},
            {"async": True},
            {"novelty": 1},
            {"type": "x"},
        ),
        *variants(ITEM_RESULT, {"output": [TEXT]}, {"call_id": 1}, {"name": "f"}),
        *variants(
            REASONING_ITEM,
            {"encrypted_content": None},
            {"encrypted_content": "dgm1.e30"},
            {"summary": None},
            {"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]},
            {"summary": [{"type": "text", "text": "a"}]},
            {"encrypted_content": WRAPPED},
            {"encrypted_content": WRAPPED[:-9]},
            {"encrypted_content": 1},
            {"encrypted_content": ""},
            {"content": [{"type": "reasoning_text", "text": "a"}]},
            {"content": [{"type": "reasoning_text", "text": "a"}, SHOWN]},
            {"content": [{"text": "a"}]},
            {"content": [{"type": "summary_text", "text": "a"}]},
            {"content": [{"type": "reasoning_text"}]},
            {"content": ["a"]},
            {"content": ""},
            {"content": [], "summary": {}},
            {"summary": [{"type": "summary_text", "text": ""}], "status": "completed", "id": "rs_1"},
            {"novelty": 1},
        ),
        *variants(
            ITEM_TEXT,
            {"phase": "commentary"},
            {"content": "Hi"},
            {"content": []},
            {"content": [{"type": "output_text", "text": ""}]},
            {"content": [{"type": "input_text", "text": "Hi"}]},
            {"content": [{"type": "output_text", "text": "Hi", "annotations": [{"type": "x"}]}]},
            {"content": [{"type": "output_text", "text": "Hi", "novelty": 1}]},
            {"content": [{"type": "refusal", "refusal": "No"}]},
            {"content": ""},
            {"role": 1},
            {"role": "tool"},
            {"novelty": 1},
        ),
        *variants(
            ITEM_WORDS,
            {},
            {"role": "user"},
            {"role": "system", "content": ""},
            {"role": "user", "content": "Go"},
            {"role": "user", "content": [{"type": "input_text", "text": "", "cache_control": {}}]},
            {"role": "user", "content": [{"type": "input_text"}]},
            {"role": "user", "content": [{"type": "text", "text": "Go"}]},
            {"role": []},
            {"content": ["Go"]},
            {"content": None},
            {"novelty": 1},
        ),
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "Hi", "phase": "commentary"},
        {"id": "msg_1", "role": "assistant", "content": "Hi"},
        {"type": "message", "role": "user"},
        {"id": "msg_1"},
        "x",
        ["x"],
        None,
    ],
}
AROUND: dict[str, list[tuple[list[Any], list[Any]]]] = {
    "messages": [([], []), ([stated(CALL)], [given(RESULT), stated(TEXT)])],
    "chat": [([], []), ([{"role": "assistant", "content": "", "tool_calls": [FUNCTION]}], [ANSWER])],
    "responses": [
        ([], []),
        ([REASONING_ITEM, ITEM_TEXT], [ITEM_CALL, ITEM_RESULT]),
        ([ITEM_CALL, ITEM_RESULT], [ITEM_TEXT]),
        ([ITEM_CUSTOM], [ITEM_CALL, ITEM_RESULT]),
        ([{**ITEM_RESULT, "output": [{"type": "input_text", "text": "ok"}]}], [ITEM_RESULT, ITEM_CALL]),
    ],
}


@pytest.mark.parametrize(
    ("dialect", "message"), [(dialect, message) for dialect, near in NEAR.items() for message in near]
)
def test_what_is_nearly_a_step_is_read_as_ever(dialect: str, message: Any) -> None:
    for before, after in AROUND[dialect]:
        history = [*before, message, *after]
        found = read(dialect, history)
        with without_steps():
            assert found == read(dialect, history)
