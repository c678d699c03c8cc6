"""Reading Chat requests: what only the canonical request shows. The rest is in `tests/golden`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.parts import Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.dialects.chat.request import read as reader
from dragoman.dialects.chat.request.read import read_request
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from support.paths import FIXTURES

HI: Json = {"role": "user", "content": "hi"}


def read(*messages: Json, **fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "messages": list(messages or (HI,)), **fields}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


# --- top level --------------------------------------------------------------------------------------------------------


def test_silence_stays_unknown() -> None:
    request, losses = read()
    assert losses == []
    assert request.parallel is None
    assert request.thinking is None
    assert request.store is None
    assert request.max_tokens is None
    assert request.include_usage is False


@pytest.mark.parametrize("fields", [{"model": None}, {"stream": "yes"}])
def test_the_model_and_the_stream_are_checked(fields: Json) -> None:
    """`translate` checks them first; other users of the reader do not."""
    with pytest.raises(ClientRequestError):
        read(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": True, "stream_options": {"include_usage": True, "novelty": 1}, "max_tokens": 9, "temperature": 0.5},
        {"stream": None, "stream_options": None, "max_completion_tokens": 9, "max_tokens": 8, "top_p": 1},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"tools": None, "temperature": None, "top_p": None, "max_tokens": None},
    ],
)
def test_requests_of_usual_fields_are_read_as_any_other(fields: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    short = read(**fields)
    monkeypatch.setattr(reader, "_USUAL", frozenset())
    assert read(**fields) == short


# --- messages ---------------------------------------------------------------------------------------------------------


def test_roles_become_turns_in_order() -> None:
    request, losses = read(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "b"}], "name": "op"},
        {"role": "user", "content": "c", "name": "bob"},
        {"role": "assistant", "content": "d"},
        {"role": "system", "content": "e"},
    )
    assert losses == []
    assert [(t.role, t.original, t.plain, t.name) for t in request.turns] == [
        ("instruction", "system", True, None),
        ("instruction", "developer", False, "op"),
        ("user", "", True, "bob"),
        ("assistant", "", True, None),
        ("instruction", "system", True, None),
    ]
    assert request.turns[1].parts == [Text("b", ("messages", 1, "content", 0))]
    assert request.turns[2].at == ("messages", 2)


def test_assistant_turn_in_canonical_order() -> None:
    request, losses = read(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "r"}],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "a": 1.0 }'}, "index": 0},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free"}},
            ],
            "reasoning_content": "why",
            "refusal": None,
            "audio": None,
            "function_call": None,
            "annotations": [],
            "parsed": None,
        },
        {"role": "tool", "tool_call_id": "c1", "content": "out"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "x"}]},
    )
    assert losses == []
    at = ("messages", 0)
    assert request.turns[0].parts == [
        Reasoning("why", at, "chat"),
        Text("a", (*at, "content", 0)),
        Refusal("r", (*at, "content", 1)),
        ToolCall("c1", "f", '{ "a": 1.0 }', (*at, "tool_calls", 0)),
        ToolCall("c2", "g", "free", (*at, "tool_calls", 1), custom=True),
    ]
    assert request.turns[1].role == "user"
    assert request.turns[1].parts == [ToolResult("c1", "out", ("messages", 1))]
    assert request.turns[2].parts == [
        ToolResult("c2", [Text("x", ("messages", 2, "content", 0))], ("messages", 2), custom=True)
    ]


def test_refusal_field_and_citations() -> None:
    note = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 1},
    }
    request, losses = read({"role": "assistant", "content": "x", "annotations": [note], "refusal": "no"})
    text, refusal = request.turns[0].parts
    assert isinstance(text, Text)
    assert text.citations == [Citation("chat", note, "https://a.test", "A", 0, 1)]
    assert refusal == Refusal("no", ("messages", 0, "refusal"))
    assert losses == []


# --- real clients -----------------------------------------------------------------------------------------------------


def _bodies() -> list[tuple[str, Json]]:
    found = []
    for path in sorted(FIXTURES.glob("*.json")):
        fixture = json.loads(path.read_bytes())
        if fixture["dialect"] == "chat":
            found.append((path.stem, fixture["request"]["body"]))
    return found


BODIES = _bodies()


def test_there_are_fixtures() -> None:
    assert len(BODIES) > 20


@pytest.mark.parametrize("body", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
def test_real_clients_are_read_without_loss(body: Json) -> None:
    losses = Losses()
    request = read_request(body, losses, Knobs())
    assert losses.rows == []
    assert len(request.turns) == len(body["messages"])
    assert [tool.name for tool in request.tools] == [t["function"]["name"] for t in body.get("tools", [])]
    calls = [part.id for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)]
    results = [part.call_id for turn in request.turns for part in turn.parts if isinstance(part, ToolResult)]
    assert calls == results
