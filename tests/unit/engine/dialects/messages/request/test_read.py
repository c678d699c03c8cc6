"""Reading Messages requests: what only the canonical request shows. The rest is in `tests/golden`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.parts import Native, Part, Reasoning, Text, ToolCall
from dragoman.canonical.request import Request
from dragoman.dialects.messages.request import read as reader
from dragoman.dialects.messages.request.read import read_request
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from support.paths import FIXTURES

HI = [{"role": "user", "content": "hi"}]


def read(losses: Losses | None = None, **fields: Any) -> Request:
    body = {"model": "m", "max_tokens": 100, "messages": HI, **fields}
    return read_request(body, Losses() if losses is None else losses, Knobs())


def parts(content: Any, role: str = "user", losses: Losses | None = None) -> list[Part]:
    return read(losses, messages=[{"role": role, "content": content}]).turns[0].parts


def part(block: Any, role: str = "user", losses: Losses | None = None) -> Any:
    (only,) = parts([block], role, losses)
    return only


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be brief.", "stream": True},
        {"system": [{"type": "text", "text": "Be brief."}], "tools": [{"name": "f", "input_schema": {}}]},
        {"system": "", "tools": None, "stream": None},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"messages": [*HI, {"role": "system", "content": "x", "output_config": {"effort": "low"}}]},
    ],
)
def test_requests_of_usual_fields_are_read_as_any_other(fields: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short = read(**fields)
    monkeypatch.setattr(reader, "_USUAL", frozenset())
    assert read(**fields) == short


# --- whole bodies -----------------------------------------------------------------------------------------------------


def recorded() -> list[Path]:
    return [path for path in sorted(FIXTURES.glob("*.json")) if _is_messages(path)]


def _is_messages(path: Path) -> bool:
    recording = json.loads(path.read_bytes())
    return (recording["dialect"], recording["request"]["path"]) == ("anthropic", "/v1/messages")


def test_there_are_recordings() -> None:
    assert len(recorded()) >= 40


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_every_recorded_request_is_read(path: Path) -> None:
    body = json.loads(path.read_bytes())["request"]["body"]
    losses = Losses()
    request = read_request(body, losses, Knobs())
    assert request.model == body["model"]
    assert len(request.tools) == len(body.get("tools", ()))
    assert len(request.turns) == len(body["messages"]) + ("system" in body)
    calls = [p for turn in request.turns for p in turn.parts if isinstance(p, ToolCall)]
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    assert [json.loads(c.arguments) for c in calls] == [b["input"] for b in blocks if b["type"] == "tool_use"]
    assert LossCode.UNKNOWN_FIELD not in losses.counts
    assert (LossCode.CONTEXT_MANAGEMENT in losses.counts) == ("context_management" in body)
    assert (LossCode.VENDOR_OPTION in losses.counts) == ("safeguards" in body)


@pytest.mark.parametrize("fields", [{"model": None}, {"stream": "yes"}])
def test_the_model_and_the_stream_are_checked(fields: dict[str, Any]) -> None:
    """`translate` checks them first; other users of the reader do not."""
    with pytest.raises(ClientRequestError):
        read(**fields)


# --- instructions -----------------------------------------------------------------------------------------------------


def test_system_string_and_blocks() -> None:
    turn = read(system="be brief").turns[0]
    assert (turn.role, turn.original, turn.plain, turn.parts) == (
        "instruction",
        "top",
        True,
        [Text("be brief", ("system",))],
    )
    turn = read(system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]).turns[0]
    assert not turn.plain
    assert turn.parts == [Text("a", ("system", 0), {"ttl": "1h"})]


def test_T46_system_messages_stay_in_their_place() -> None:
    request = read(
        messages=[
            {"role": "user", "content": "a"},
            {"role": "system", "content": "mind b"},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
            {"role": "system", "content": [{"type": "text", "text": "e"}]},
        ]
    )
    assert [turn.role for turn in request.turns] == ["user", "instruction", "assistant", "user", "instruction"]
    assert request.turns[1].original == "system"
    assert request.turns[4].at == ("messages", 4)


# --- user content -----------------------------------------------------------------------------------------------------


def test_text_with_mark_and_citations() -> None:
    citation = {"type": "web_search_result_location", "url": "https://a.test", "title": "A"}
    text = part(
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "citations": [citation]}, "assistant"
    )
    assert text.cache == {"ttl": None}
    assert (text.citations[0].url, text.citations[0].native) == ("https://a.test", citation)


# --- assistant content ------------------------------------------------------------------------------------------------


def test_T10_thinking_is_kept_whole() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "sig"}
    reasoning = part(block, "assistant")
    assert reasoning == Reasoning("", ("messages", 0, "content", 0), "messages", "sig", native=block)
    assert reasoning.native is block
    assert part({"type": "thinking", "thinking": "x", "signature": ""}, "assistant").proof is None
    redacted = part({"type": "redacted_thinking", "data": "d"}, "assistant")
    assert (redacted.proof, redacted.redacted, redacted.text) == ("d", True, "")


def test_blocks_of_the_provider_are_kept_whole() -> None:
    block = {"type": "mcp_tool_use", "id": "x"}
    native = part(block, "assistant")
    assert native == Native("messages", "mcp_tool_use", block, LossCode.VENDOR_BLOCK, ("messages", 0, "content", 0))
    assert native.payload is block


# --- tools ------------------------------------------------------------------------------------------------------------


def test_hosted_and_typed_tools() -> None:
    search = {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 8,
        "allowed_domains": ["a.test"],
        "user_location": {"type": "approximate", "city": "Rome"},
    }
    tools = read(tools=[search, {"type": "bash_20250124", "name": "bash"}]).tools
    assert [(tool.kind, tool.name, tool.origin) for tool in tools] == [
        ("hosted", "web_search", "messages"),
        ("typed", "bash", "messages"),
    ]
    assert tools[0].native == search
    assert tools[0].options == {"allowed_domains": ["a.test"], "user_location": {"city": "Rome"}, "max_uses": 8}
