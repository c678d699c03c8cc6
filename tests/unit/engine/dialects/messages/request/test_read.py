"""Messages request → canonical request, field by field and block by block (mapping §8.2, §8.4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.request import (
    Document,
    FileRef,
    Image,
    Inline,
    Native,
    Part,
    Reasoning,
    Request,
    Role,
    SearchResult,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolReference,
    ToolResult,
    Url,
)
from dragoman.dialects.messages.request.read import read_request
from dragoman.errors import ClientRequestError, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses

FIXTURES = Path(__file__).parent.parent / "fixtures"
HI = [{"role": "user", "content": "hi"}]


def read(losses: Losses | None = None, **fields: Any) -> Request:
    body = {"model": "m", "max_tokens": 100, "messages": HI, **fields}
    return read_request(body, Losses() if losses is None else losses, Knobs())


def codes(**fields: Any) -> dict[LossCode, int]:
    losses = Losses()
    read(losses, **fields)
    return dict(losses.counts)


def parts(content: Any, role: str = "user", losses: Losses | None = None) -> list[Part]:
    return read(losses, messages=[{"role": role, "content": content}]).turns[0].parts


def part(block: Any, role: str = "user", losses: Losses | None = None) -> Any:
    (only,) = parts([block], role, losses)
    return only


# --- whole bodies -----------------------------------------------------------------------------------------------------


def recorded() -> list[Path]:
    return [path for path in sorted(FIXTURES.glob("*.json")) if _speaks_messages(path)]


def _speaks_messages(path: Path) -> bool:
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


def test_controls_are_read() -> None:
    request = read(
        stream=True,
        temperature=1,
        top_p=0.5,
        top_k=3,
        stop_sequences=["END"],
        metadata={"user_id": "u"},
        service_tier="standard_only",
    )
    assert (request.origin, request.model, request.max_tokens, request.stream) == ("messages", "m", 100, True)
    assert (request.temperature, request.top_p, request.top_k, request.stop) == (1, 0.5, 3, ["END"])
    assert (request.end_user, request.service_tier) == ("u", "default")


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("fallbacks", "default", LossCode.VENDOR_OPTION),
        ("fallback_credit_token", "t", LossCode.VENDOR_OPTION),
        ("billing_policy", {"type": "x"}, LossCode.VENDOR_OPTION),
        ("safeguards", [{"type": "dangerous_tool_use"}], LossCode.VENDOR_OPTION),
        ("context_management", {"edits": []}, LossCode.CONTEXT_MANAGEMENT),
        ("output_config", {"task_budget": {"tokens": 1}}, LossCode.TASK_BUDGET),
        ("speed", "fast", LossCode.SERVICE_TIER),
        ("stream_options", {"include_usage": True}, LossCode.LEAKED_FIELD),
        ("metadata", {"other": 1}, LossCode.UNKNOWN_FIELD),
        ("output_config", {"other": 1}, LossCode.UNKNOWN_FIELD),
    ],
)
def test_T44_what_is_of_no_use_elsewhere_is_dropped_with_a_row(field: str, value: Any, code: LossCode) -> None:
    assert codes(**{field: value}) == {code: 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("diagnostics", {"previous_message_id": "x"}),
        ("cache_control", {"type": "ephemeral"}),
        ("betas", ["x"]),
        ("user_profile_id", "x"),
        ("mcp_servers", []),
        ("container", None),
        ("speed", "standard"),
        ("system", ""),
        ("system", None),
        ("tools", None),
        ("tools", []),
        ("tool_choice", None),
        ("thinking", None),
        ("metadata", {"user_id": None}),
    ],
)
def test_what_has_no_effect_leaves_no_row(field: str, value: Any) -> None:
    assert codes(**{field: value}) == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("container", "c"),
        ("compaction", {"type": "summarize"}),
        ("thread", {"type": "create"}),
        ("inference_geo", "eu"),
        ("mcp_servers", [{"type": "url"}]),
        ("max_tokens", 0),
    ],
)
def test_what_no_other_dialect_can_carry_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Unsupported, match=f"^{field}: ") as caught:
        read(**{field: value})
    assert caught.value.failure.param == field


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": ["x"]}, r"messages\[0\]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, r"messages\[0\].content\[0\].type"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, r"messages\[0\].content\[0\]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, r"messages\[0\].content\[0\].text"),
        ({"system": 3}, "system"),
        ({"stop_sequences": [1]}, r"stop_sequences\[0\]"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"thinking": {"type": "loud"}}, "thinking.type"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_object"}}}, "output_config.format.type"),
        ({"tools": [{"input_schema": {}}]}, r"tools\[0\].name"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, r"tools\[1\].name"),
        ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"service_tier": "flex"}, "service_tier"),
    ],
)
def test_malformed_fields_are_named(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ClientRequestError, match=f"^{where}: "):
        read(**fields)


def test_too_many_messages() -> None:
    with pytest.raises(TooMany, match="messages: holds 2 messages; the limit messages is 1"):
        read_request({"model": "m", "max_tokens": 1, "messages": HI * 2}, Losses(), Knobs(), Limits(messages=1))


# --- instructions -----------------------------------------------------------------------------------------------------


def test_system_string_and_blocks() -> None:
    turn = read(system="be brief").turns[0]
    assert (turn.role, turn.original, turn.plain, turn.parts) == (
        Role.INSTRUCTION,
        "top",
        True,
        [Text("be brief", ("system",))],
    )
    turn = read(system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]).turns[0]
    assert not turn.plain
    assert turn.parts == [Text("a", ("system", 0), {"ttl": "1h"})]


def test_system_takes_text_only() -> None:
    with pytest.raises(Unsupported, match=r"^system\[0\]: "):
        read(system=[{"type": "image", "source": {"type": "url", "url": "x"}}])


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


def test_the_last_effort_of_a_message_holds_for_the_request() -> None:
    losses = Losses()
    request = read(
        losses,
        output_config={"effort": "low"},
        messages=[*HI, {"role": "system", "content": "x", "output_config": {"effort": "max"}}],
    )
    assert request.thinking == Thinking("max", ("output_config", "effort"))
    assert losses.counts == {LossCode.PER_TURN_EFFORT: 1}


def test_a_system_message_may_hold_an_effort_alone() -> None:
    request = read(messages=[*HI, {"role": "system", "output_config": {"effort": "low"}}])
    assert len(request.turns) == 1
    assert request.thinking is not None
    assert request.thinking.effort == "low"


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        ([], True),
        ([{"role": "assistant", "content": "x"}], True),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], True),
        ([{"role": "user", "content": "next"}], False),
        (
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, {"type": "text", "text": "x"}]}],
            False,
        ),
    ],
)
def test_clear_at_next_user_message(later: list[Any], kept: bool) -> None:
    reminder = {"role": "system", "content": "reminder", "clear_at": "next_user_message"}
    losses = Losses()
    request = read(losses, messages=[*HI, reminder, *later])
    assert any(turn.role is Role.INSTRUCTION for turn in request.turns) == kept
    assert not len(losses)


def test_tools_that_come_and_go_become_the_list_in_effect() -> None:
    losses = Losses()
    request = read(
        losses,
        tools=[{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}}],
        messages=[
            *HI,
            {
                "role": "system",
                "content": [
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "a"}},
                    {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "b"}},
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": {"name": "c", "input_schema": {}}},
                    },
                ],
            },
        ],
    )
    assert [tool.name for tool in request.tools] == ["b", "c"]
    assert losses.counts == {LossCode.TOOL_TIMELINE: 3}
    assert len(request.turns) == 1


# --- user content -----------------------------------------------------------------------------------------------------


def test_text_with_mark_and_citations() -> None:
    citation = {"type": "web_search_result_location", "url": "https://a.test", "title": "A"}
    text = part(
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}, "citations": [citation]}, "assistant"
    )
    assert text.cache == {"ttl": None}
    assert (text.citations[0].url, text.citations[0].native) == ("https://a.test", citation)


@pytest.mark.parametrize(
    ("source", "read_as"),
    [
        ({"type": "base64", "media_type": "image/png", "data": "QQ=="}, Inline("image/png", "QQ==")),
        ({"type": "url", "url": "https://a.test/x.png"}, Url("https://a.test/x.png")),
        ({"type": "file", "file_id": "file_1"}, FileRef("file_1", "messages")),
    ],
)
def test_media_sources(source: dict[str, Any], read_as: Any) -> None:
    image = part({"type": "image", "source": source})
    assert isinstance(image, Image)
    assert image.source == read_as
    assert part({"type": "document", "source": source}).source == read_as


def test_image_transformations_are_a_vendor_option() -> None:
    losses = Losses()
    source = {"type": "url", "url": "x"}
    part({"type": "image", "source": source, "transformations": {"oversized_image": "error"}}, losses=losses)
    assert losses.counts == {LossCode.VENDOR_OPTION: 1}


def test_documents() -> None:
    document = part(
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "body"},
            "title": "T",
            "context": "C",
            "citations": {"enabled": True},
        }
    )
    assert isinstance(document, Document)
    assert isinstance(document.source, Text)
    assert (document.source.text, document.name, document.context, document.cite) == ("body", "T", "C", True)
    nested = {"type": "image", "source": {"type": "url", "url": "u"}}
    document = part(
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}, nested]}}
    )
    assert [type(p) for p in document.source] == [Text, Image]
    document = part({"type": "document", "source": {"type": "content", "content": "a"}})
    assert [p.text for p in document.source] == ["a"]


def test_search_result() -> None:
    found = part(
        {"type": "search_result", "source": "https://a.test", "title": "A", "content": [{"type": "text", "text": "b"}]}
    )
    assert isinstance(found, SearchResult)
    assert (found.source, found.title, found.body[0].text, found.cite) == ("https://a.test", "A", "b", False)


@pytest.mark.parametrize("kind", ["container_upload", "hologram", "tool_use", "thinking"])
def test_blocks_without_a_place_are_refused_and_never_skipped(kind: str) -> None:
    with pytest.raises(Unsupported, match=r"^messages\[0\].content\[0\]: "):
        part({"type": kind})


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_compaction_summary_becomes_user_text_at_its_place(role: str) -> None:
    losses = Losses()
    blocks = [{"type": "compaction", "content": "so far", "encrypted_content": "x"}, {"type": "text", "text": "go"}]
    turns = read(losses, messages=[{"role": role, "content": blocks}]).turns
    first = turns[0].parts[0]
    assert turns[0].role is Role.USER
    assert isinstance(first, Text)
    assert first.text == "so far"
    assert turns[-1].role == role
    assert turns[-1].parts[-1] == Text("go", ("messages", 0, "content", 1))
    assert losses.counts == {LossCode.COMPACTION_SHAPE: 1}


def test_a_failed_compaction_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"content\[0\].content"):
        part({"type": "compaction", "content": None})


# --- results ----------------------------------------------------------------------------------------------------------


def test_results_may_hold_anything() -> None:
    content = [
        {"type": "text", "text": "a"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}},
        {"type": "search_result", "source": "s", "title": "t", "content": []},
        {"type": "tool_reference", "tool_name": "WebSearch"},
    ]
    result = part({"type": "tool_result", "tool_use_id": "a", "content": content, "is_error": True})
    assert isinstance(result, ToolResult)
    assert [type(p) for p in result.content] == [Text, Image, Document, SearchResult, ToolReference]
    assert (result.call_id, result.is_error) == ("a", True)


@pytest.mark.parametrize(
    ("content", "read_as"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        ([], []),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}'),
        (["a", "b"], '["a","b"]'),
        ([{"rows": 3}], '[{"rows":3}]'),
        (7, "7"),
        (False, "false"),
    ],
)
def test_odd_result_content_is_kept_as_json(content: Any, read_as: Any) -> None:
    assert part({"type": "tool_result", "tool_use_id": "a", "content": content}).content == read_as


def test_result_content_may_be_absent() -> None:
    result = part({"type": "tool_result", "tool_use_id": "a"})
    assert (result.content, result.is_error) == ("", False)


def test_an_unknown_block_in_a_result_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"^messages\[0\].content\[0\].content\[0\]: "):
        part({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "hologram"}]})


def test_browser_state_becomes_text() -> None:
    losses = Losses()
    state = {"type": "browser_state", "tabs": []}
    result = part({"type": "tool_result", "tool_use_id": "a", "content": [state]}, losses=losses)
    assert result.content[0].text == '{"type":"browser_state","tabs":[]}'
    assert losses.counts == {LossCode.RESULT_SHAPE: 1}


# --- assistant content ------------------------------------------------------------------------------------------------


def test_T10_thinking_is_kept_whole() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "sig"}
    reasoning = part(block, "assistant")
    assert reasoning == Reasoning("", ("messages", 0, "content", 0), "messages", "sig", native=block)
    assert reasoning.native is block
    assert part({"type": "thinking", "thinking": "x", "signature": ""}, "assistant").proof is None
    redacted = part({"type": "redacted_thinking", "data": "d"}, "assistant")
    assert (redacted.proof, redacted.redacted, redacted.text) == ("d", True, "")


def test_calls_keep_key_order_and_characters() -> None:
    call = part({"type": "tool_use", "id": "t", "name": "f", "input": {"z": "é", "a": 1}}, "assistant")
    assert call == ToolCall("t", "f", '{"z":"é","a":1}', ("messages", 0, "content", 0))


@pytest.mark.parametrize("given", ["{}", None, [], 3])
def test_T06_tool_input_must_be_an_object(given: Any) -> None:
    with pytest.raises(ClientRequestError, match=r"^messages\[0\].content\[0\].input: expected an object"):
        part({"type": "tool_use", "id": "t", "name": "f", "input": given}, "assistant")


def test_call_meta_is_dropped_with_a_row_unless_it_says_nothing() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    losses = Losses()
    part({**call, "caller": {"type": "direct"}, "toolset_name": None}, "assistant", losses)
    assert not len(losses)
    part({**call, "caller": {"type": "code_execution_20260120"}, "toolset_name": "browser"}, "assistant", losses)
    assert losses.counts == {LossCode.CALL_META: 2}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        *(
            (kind, LossCode.HOSTED_HISTORY)
            for kind in (
                "server_tool_use",
                "web_search_tool_result",
                "web_fetch_tool_result",
                "code_execution_tool_result",
                "bash_code_execution_tool_result",
                "text_editor_code_execution_tool_result",
                "tool_search_tool_result",
            )
        ),
        *(
            (kind, LossCode.VENDOR_BLOCK)
            for kind in ("mcp_tool_use", "mcp_tool_result", "mcp_tool_listing", "advisor_tool_result", "fallback")
        ),
    ],
)
def test_blocks_of_the_provider_ride_along(kind: str, code: LossCode) -> None:
    block = {"type": kind, "id": "x"}
    native = part(block, "assistant")
    assert native == Native("messages", kind, block, code, ("messages", 0, "content", 0))


# --- tools ------------------------------------------------------------------------------------------------------------


def test_function_tools() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}
    tool = read(
        tools=[
            {
                "type": "custom",
                "name": "f",
                "description": "d",
                "input_schema": schema,
                "strict": True,
                "cache_control": {"type": "ephemeral"},
                "defer_loading": True,
                "eager_input_streaming": None,
            }
        ]
    ).tools[0]
    assert (tool.kind, tool.name, tool.description, tool.schema, tool.strict) == (
        ToolKind.FUNCTION,
        "f",
        "d",
        schema,
        True,
    )
    assert (tool.cache, tool.options) == ({"ttl": None}, {"defer_loading": True})


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
        (ToolKind.HOSTED, "web_search", "messages"),
        (ToolKind.TYPED, "bash", "messages"),
    ]
    assert tools[0].native == search
    assert tools[0].options == {"allowed_domains": ["a.test"], "user_location": {"city": "Rome"}, "max_uses": 8}


@pytest.mark.parametrize(
    "kind", ["web_fetch_20260318", "code_execution_20260521", "tool_search_tool_bm25_20251119", "advisor_20260301"]
)
def test_every_server_tool_is_hosted(kind: str) -> None:
    assert read(tools=[{"type": kind, "name": "n"}]).tools[0].kind is ToolKind.HOSTED


@pytest.mark.parametrize(
    "kind", ["computer_20251124", "computer_toolset_20260801", "browser_toolset_20260801", "mcp_toolset", "teleport_1"]
)
def test_tools_no_other_dialect_has_are_refused(kind: str) -> None:
    with pytest.raises(Unsupported, match=r"^tools\[0\]"):
        read(tools=[{"type": kind, "name": "n"}])


@pytest.mark.parametrize(
    ("given", "choice", "parallel"),
    [
        ({"type": "auto"}, ToolChoice("auto", ("tool_choice",)), None),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required", ("tool_choice",)), False),
        ({"type": "tool", "name": "f"}, ToolChoice("tool", ("tool_choice",), ["f"]), None),
        ({"type": "tool", "name": "s"}, ToolChoice("tool", ("tool_choice",), ["s"], hosted=True), None),
        ({"type": "none"}, ToolChoice("none", ("tool_choice",)), None),
        ({"type": "auto", "disable_parallel_tool_use": False}, ToolChoice("auto", ("tool_choice",)), True),
    ],
)
def test_choice(given: Any, choice: ToolChoice, parallel: bool | None) -> None:
    tools = [{"name": "f", "input_schema": {}}, {"type": "web_search_20250305", "name": "s"}]
    request = read(tools=tools, tool_choice=given)
    assert (request.tool_choice, request.parallel) == (choice, parallel)


# --- reasoning and format ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "effort"),
    [
        (1024, "low"),
        (2047, "low"),
        (2048, "medium"),
        (8191, "medium"),
        (8192, "high"),
        (31999, "high"),
        (32767, "high"),
        (32768, "xhigh"),
        (63999, "xhigh"),
        (64000, "max"),
    ],
)
def test_budgets_become_efforts(budget: int, effort: str) -> None:
    request = read(thinking={"type": "enabled", "budget_tokens": budget, "display": "updates"})
    assert request.thinking == Thinking(effort, ("thinking",), "updates")


@pytest.mark.parametrize(
    ("fields", "thinking", "losses"),
    [
        ({"thinking": {"type": "adaptive"}}, Thinking(None, ("thinking",)), {}),
        (
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}},
            Thinking("xhigh", ("output_config", "effort"), "summarized"),
            {},
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "output_config": {"effort": "max"}},
            Thinking("max", ("output_config", "effort")),
            {},
        ),
        ({"thinking": {"type": "disabled"}}, Thinking("none", ("thinking",)), {}),
        ({"thinking": {"type": "between_tools"}}, Thinking("none", ("thinking",)), {LossCode.THINKING_MODE: 1}),
        (
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}},
            Thinking("none", ("thinking",)),
            {LossCode.THINKING_MODE: 1},
        ),
        ({"output_config": {"effort": "low"}}, Thinking("low", ("output_config", "effort")), {}),
        ({}, None, {}),
    ],
)
def test_thinking(fields: Any, thinking: Thinking | None, losses: Any) -> None:
    assert read(**fields).thinking == thinking
    assert codes(**fields) == losses


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            ("output_config", "format"),
        ),
        ({"output_format": {"type": "json_schema", "schema": {"type": "object"}}}, ("output_format",)),
    ],
)
def test_output_format_in_both_spellings(fields: Any, at: Any) -> None:
    wanted = read(**fields).format
    assert wanted is not None
    assert (wanted.kind, wanted.schema, wanted.strict, wanted.at) == ("json_schema", {"type": "object"}, True, at)
