"""Reading Chat requests: every field of the dialect, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.events import Citation
from dragoman.canonical.request import (
    Document,
    FileRef,
    Image,
    Inline,
    Json,
    Reasoning,
    Refusal,
    Request,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolResult,
    Url,
)
from dragoman.dialects.chat.request.read import read_request
from dragoman.errors import ClientRequestError, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses

FIXTURES = Path(__file__).parents[1] / "fixtures"
HI: Json = {"role": "user", "content": "hi"}
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def read(*messages: Json, **fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "messages": list(messages or (HI,)), **fields}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def refused(*messages: Json, **fields: Any) -> str | None:
    with pytest.raises(ClientRequestError) as caught:
        read(*messages, **fields)
    return caught.value.failure.param


def test_unsupported_differs_from_malformed() -> None:
    with pytest.raises(Unsupported):
        read(n=2)
    with pytest.raises(ClientRequestError) as caught:
        read(n="2")
    assert not isinstance(caught.value, Unsupported)


# --- top level --------------------------------------------------------------------------------------------------------


def test_all_controls() -> None:
    request, losses = read(
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        max_completion_tokens=10,
        temperature=1,
        top_p=0.5,
        frequency_penalty=0,
        presence_penalty=0.5,
        logit_bias={},
        seed=7,
        n=1,
        stop=["a", "b"],
        logprobs=True,
        top_logprobs=3,
        reasoning_effort="xhigh",
        verbosity="low",
        modalities=["text"],
        metadata={"k": "v"},
        store=True,
        service_tier="flex",
        user="u",
        safety_identifier="s",
        prompt_cache_key="key",
        prompt_cache_options={"mode": "explicit"},
        prompt_cache_retention="24h",
        moderation={"model": "x"},
        parallel_tool_calls=False,
        functions=None,
        audio=None,
    )
    assert losses == []
    assert (request.origin, request.model, request.stream, request.include_usage) == ("chat", "m", True, True)
    assert (request.max_tokens, request.max_tokens_at) == (10, ("max_completion_tokens",))
    assert (request.temperature, request.top_p, request.top_k) == (1, 0.5, None)
    assert request.sampling == {"presence_penalty": 0.5, "seed": 7}
    assert (request.stop, request.stop_at) == (["a", "b"], ("stop",))
    assert (request.logprobs, request.top_logprobs) == (True, 3)
    assert request.thinking == Thinking("xhigh", ("reasoning_effort",))
    assert (request.verbosity, request.metadata, request.store) == ("low", {"k": "v"}, True)
    assert (request.service_tier, request.service_tier_at) == ("flex", ("service_tier",))
    assert request.end_user == "s"
    assert list(request.cache) == ["prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"]
    assert request.moderation == {"model": "x"}
    assert request.parallel is False


def test_silence_stays_unknown() -> None:
    request, losses = read()
    assert losses == []
    assert request.parallel is None
    assert request.thinking is None
    assert request.store is None
    assert request.max_tokens is None
    assert request.include_usage is False


def test_modern_cap_wins() -> None:
    request, _ = read(max_tokens=5, max_completion_tokens=9)
    assert request.max_tokens == 9
    request, _ = read(max_tokens=5)
    assert (request.max_tokens, request.max_tokens_at) == (5, ("max_tokens",))


def test_stop_takes_a_string_and_drops_blank_entries() -> None:
    assert read(stop="x")[0].stop == ["x"]
    request, losses = read(stop=["x", " ", ""])
    assert request.stop == ["x"]
    assert losses == [(LossCode.STOP_DROPPED, "stop[1]"), (LossCode.STOP_DROPPED, "stop[2]")]


def test_user_is_the_end_user_without_a_safety_identifier() -> None:
    assert read(user="u")[0].end_user == "u"
    assert read(user="")[0].end_user is None


def test_output_formats() -> None:
    assert read(response_format={"type": "text"})[0].format is None
    form = read(response_format={"type": "json_object"})[0].format
    assert form is not None
    assert form.kind == "json_object"
    schema = {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"}
    form = read(response_format={"type": "json_schema", "json_schema": schema})[0].format
    assert form is not None
    assert (form.name, form.schema, form.strict, form.description) == ("n", {"type": "object"}, True, "d")
    assert form.at == ("response_format",)


def test_prediction_is_dropped() -> None:
    assert read(prediction={"type": "content", "content": "x"})[1] == [(LossCode.PREDICTION, "prediction")]


def test_T44_unknown_fields_are_dropped_with_a_row() -> None:
    _, losses = read(context_management={"edits": []}, enable_thinking=True, stream_options={"x": 1})
    assert losses == [
        (LossCode.UNKNOWN_FIELD, "stream_options.x"),
        (LossCode.LEAKED_FIELD, "context_management"),
        (LossCode.UNKNOWN_FIELD, "enable_thinking"),
    ]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"functions": []}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"audio": {"voice": "v", "format": "wav"}}, "audio"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stop": 3}, "stop"),
        ({"stop": ["a", 3]}, "stop[1]"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"verbosity": "loud"}, "verbosity"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"metadata": []}, "metadata"),
        ({"logit_bias": []}, "logit_bias"),
        ({"seed": 1.5}, "seed"),
        ({"tools": {}}, "tools"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"model": 1}, "model"),
    ],
)
def test_wrong_fields_are_named(fields: Json, param: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        read_request({"model": "m", "messages": [HI], **fields}, Losses(), Knobs())
    assert caught.value.failure.param == param


def test_model_and_messages_are_required() -> None:
    for body in ({"messages": [HI]}, {"model": "m"}):
        with pytest.raises(ClientRequestError, match="is required"):
            read_request(body, Losses(), Knobs())


def test_too_many_messages() -> None:
    with pytest.raises(TooMany):
        read_request({"model": "m", "messages": [HI, HI]}, Losses(), Knobs(), Limits(messages=1))


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
        (Role.INSTRUCTION, "system", True, None),
        (Role.INSTRUCTION, "developer", False, "op"),
        (Role.USER, "", True, "bob"),
        (Role.ASSISTANT, "", True, None),
        (Role.INSTRUCTION, "system", True, None),
    ]
    assert request.turns[1].parts == [Text("b", ("messages", 1, "content", 0))]
    assert request.turns[2].at == ("messages", 2)


def test_user_parts() -> None:
    request, losses = read(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "t", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
                {"type": "image_url", "image_url": {"url": "data:image/PNG;base64,QUJD", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://a.test/i.png"}},
                {"type": "file", "file": {"file_data": "data:text/csv;charset=utf-8;base64,QUJD", "filename": "x.csv"}},
                {"type": "file", "file": {"file_id": "file-1"}, "cache_control": {"type": "ephemeral"}},
            ],
        }
    )
    at = ("messages", 0, "content")
    assert losses == []
    assert request.turns[0].parts == [
        Text("t", (*at, 0), {"ttl": "12h"}),
        Image(Inline("image/png", "QUJD"), (*at, 1), "low"),
        Image(Url("https://a.test/i.png"), (*at, 2)),
        Document(Inline("text/csv", "QUJD"), (*at, 3), "x.csv"),
        Document(FileRef("file-1", "chat"), (*at, 4), cache={"ttl": None}),
    ]


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "messages[0].content[0]"),
        ({"type": "hologram"}, "messages[0].content[0]"),
        ({"type": "refusal", "refusal": "no"}, "messages[0].content[0]"),
        ({"text": "no type"}, "messages[0].content[0].type"),
        ({"type": "text", "text": 1}, "messages[0].content[0].text"),
        ({"type": "image_url", "image_url": "https://a.test"}, "messages[0].content[0].image_url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,QUJD"}}, "messages[0].content[0].image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:;base64,QUJD"}}, "messages[0].content[0].image_url.url"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}, "messages[0].content[0].image_url.url"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "messages[0].content[0].image_url.url"),
        ({"type": "file", "file": {"file_data": "QUJD"}}, "messages[0].content[0].file.file_data"),
        ({"type": "file", "file": {"filename": "a"}}, "messages[0].content[0].file"),
        ("bare", "messages[0].content[0]"),
    ],
)
def test_bad_parts_are_named_and_never_skipped(part: Any, param: str) -> None:
    assert refused({"role": "user", "content": [part]}) == param


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "function", "name": "f", "content": "x"}, "messages[0]"),
        ({"role": "narrator", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "system", "content": [{"type": "image_url", "image_url": {"url": ""}}]}, "messages[0].content[0]"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "tool", "tool_call_id": "", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "tool", "tool_call_id": 3, "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "assistant", "content": 3}, "messages[0].content"),
        ({"role": "assistant", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": ""}}, "messages[0].function_call"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [3]}, "messages[0].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{"type": "function"}]}, "messages[0].tool_calls[0].id"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "type": "x"}]}, "messages[0].tool_calls[0].type"),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"arguments": "{}"}}]},
            "messages[0].tool_calls[0].function.name",
        ),
    ],
)
def test_bad_messages_are_named(message: Json, param: str) -> None:
    assert refused(message) == param


def test_T06_foreign_blocks_in_content_are_refused_by_name() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    assert refused(HI, {"role": "assistant", "content": [block]}) == "messages[1].content[0]"


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
    assert request.turns[1].role is Role.USER
    assert request.turns[1].parts == [ToolResult("c1", "out", ("messages", 1))]
    assert request.turns[2].parts == [
        ToolResult("c2", [Text("x", ("messages", 2, "content", 0))], ("messages", 2), custom=True)
    ]


@pytest.mark.parametrize("content", [None, ""])
def test_assistant_without_text_has_no_text_part(content: str | None) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    request, _ = read({"role": "assistant", "content": content, "tool_calls": [call]})
    assert request.turns[0].parts == [ToolCall("c", "f", "", ("messages", 0, "tool_calls", 0))]


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


def test_T15_reasoning_of_tool_turns_is_kept_first() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for field, value in (
        ("reasoning_content", "why"),
        ("reasoning", "why"),
        ("reasoning_details", [{"type": "reasoning.text", "text": "why"}]),
    ):
        request, losses = read({"role": "assistant", "content": "", "tool_calls": [call], field: value})
        assert request.turns[0].parts[0] == Reasoning("why", ("messages", 0), "chat")
        assert losses == []


def test_opaque_reasoning_extensions_leave_a_row() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}, {"text": "t", "signature": "s"}]
    _, losses = read({"role": "assistant", "content": "x", "reasoning_details": details, "thinking_blocks": [{}]})
    assert losses == [
        (LossCode.REASONING_ENCRYPTED, "messages[0].reasoning_details"),
        (LossCode.REASONING_SIGNATURE, "messages[0].reasoning_details"),
        (LossCode.REASONING_SIGNATURE, "messages[0].thinking_blocks"),
    ]


def test_unknown_message_keys_leave_a_row() -> None:
    _, losses = read({"role": "user", "content": [{"type": "text", "text": "x", "weight": 1}], "mood": "glad"})
    assert losses == [
        (LossCode.UNKNOWN_FIELD, "messages[0].mood"),
        (LossCode.UNKNOWN_FIELD, "messages[0].content[0].weight"),
    ]


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ({"a": [1, "é"]}, '{"a":[1,"é"]}'), (3, "3"), (False, "false")]
)
def test_tool_content_of_old_clients_is_serialised(content: Any, text: str) -> None:
    request, _ = read({"role": "tool", "tool_call_id": "c", "content": content, "name": "f"})
    assert request.turns[0].parts == [ToolResult("c", text, ("messages", 0))]


def test_image_in_a_tool_message_is_carried() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    request, _ = read({"role": "tool", "tool_call_id": "c", "content": [part]})
    result = request.turns[0].parts[0]
    assert isinstance(result, ToolResult)
    assert result.content == [Image(Inline("image/png", "QUJD"), ("messages", 0, "content", 0))]


PICTURE: Json = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
CALLED: Json = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_cache_mark_on_a_message_means_its_last_part() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    request, losses = read(
        {"role": "system", "content": "s", "cache_control": mark},
        {"role": "tool", "tool_call_id": "c", "content": "x", "cache_control": mark},
    )
    assert losses == []
    assert [t.parts[0].cache for t in request.turns] == [{"ttl": "1h"}, {"ttl": "1h"}]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "text", "text": "x"}, PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": [CALLED]},
        {"role": "assistant", "content": "x", "reasoning_content": "hm", "tool_calls": [CALLED]},
    ],
)
def test_a_cache_mark_on_a_message_stands_on_a_picture_and_on_a_call_too(message: Json) -> None:
    request, losses = read({**message, "cache_control": {"type": "ephemeral"}})
    assert losses == []
    marks = [getattr(part, "cache", None) for part in request.turns[0].parts]
    assert marks[-1] == {"ttl": None}
    assert not any(marks[:-1])


@pytest.mark.parametrize(
    "message", [{"role": "user", "content": []}, {"role": "assistant", "content": None, "refusal": "no"}]
)
def test_a_cache_mark_that_nothing_can_bear_is_a_loss(message: Json) -> None:
    _, losses = read({**message, "cache_control": {"type": "ephemeral"}})
    assert losses == [(LossCode.CACHE_HINT, "messages[0].cache_control")]
    assert read({**message, "cache_control": None})[1] == []


# --- tools ------------------------------------------------------------------------------------------------------------


def test_tools_of_each_kind() -> None:
    schema = {"type": "object", "properties": {}}
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    custom = {"type": "custom", "custom": {"name": "g", "description": "d", "format": grammar}}
    request, losses = read(
        tools=[
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": schema, "strict": True},
                "cache_control": {"type": "ephemeral"},
            },
            {"type": "function", "function": {"name": "bare"}},
            custom,
        ],
        web_search_options={
            "search_context_size": "low",
            "user_location": {"type": "approximate", "approximate": {"city": "Paris"}},
        },
    )
    assert losses == []
    f, bare, g, search = request.tools
    assert (f.kind, f.description, f.schema, f.strict, f.cache) == (
        ToolKind.FUNCTION,
        "d",
        schema,
        True,
        {"ttl": None},
    )
    assert (bare.schema, bare.strict, bare.at) == (None, None, ("tools", 1))
    assert (g.kind, g.native) == (ToolKind.CUSTOM, custom)
    assert (search.kind, search.name, search.at) == (ToolKind.HOSTED, "web_search", ("web_search_options",))
    assert search.options == {
        "user_location": {"type": "approximate", "city": "Paris"},
        "search_context_size": "low",
    }


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([FUNCTION, FUNCTION], "tools[1]"),
        ([{"type": "mcp"}], "tools[0].type"),
        ([{"type": "function", "name": "f", "parameters": {}}], "tools[0].function"),
        ([{"type": "function", "function": {"name": ""}}], "tools[0].function.name"),
        ([{"type": "function", "function": {"name": "f", "parameters": []}}], "tools[0].function.parameters"),
        (["f"], "tools[0]"),
    ],
)
def test_bad_tools_are_named(tools: list[Any], param: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        read(tools=tools)
    assert caught.value.failure.param == param


AT = ("tool_choice",)


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, None),
        ("auto", ToolChoice("auto", AT)),
        ("none", ToolChoice("none", AT)),
        ("required", ToolChoice("required", AT)),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("tool", AT, ["f"])),
        ({"type": "custom", "custom": {"name": "g"}}, ToolChoice("tool", AT, ["g"], custom=True)),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
            ToolChoice("allowed", AT, ["f"], require=True),
        ),
    ],
)
def test_tool_choice_forms(choice: Any, read_as: ToolChoice | None) -> None:
    assert read(tools=[FUNCTION], tool_choice=choice)[0].tool_choice == read_as


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (3, "tool_choice"),
        ({"type": "tool", "name": "f"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "x", "tools": []}}, "tool_choice.allowed_tools.mode"),
    ],
)
def test_bad_tool_choice_is_named(choice: Any, param: str) -> None:
    assert refused(tool_choice=choice) == param


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
