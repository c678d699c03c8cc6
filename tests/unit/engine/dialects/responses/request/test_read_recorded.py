"""Responses requests of real clients, and invalid variants of them."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.parts import ToolCall, ToolResult
from dragoman.canonical.request import Json, Request
from dragoman.dialects.directions import direction
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError, DragomanError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.translate_request import Translation, translate
from support.mutations import places
from support.paths import FIXTURES


def recorded() -> list[Path]:
    """Requests of the dialect, without WebSocket frames and without those that build on stored state."""
    return [path for path in sorted(FIXTURES.glob("*.json")) if _is_whole(path)]


def _is_whole(path: Path) -> bool:
    recording = json.loads(path.read_bytes())
    body = recording["request"]["body"]
    if recording["dialect"] != "responses" or "websocket" in path.name or type(body) is not dict:
        return False
    return body.get("previous_response_id") is None


def body_of(name: str) -> Json:
    body: Json = json.loads((FIXTURES / f"{name}.json").read_bytes())["request"]["body"]
    return body


def read(name: str) -> tuple[Request, dict[LossCode, int]]:
    losses = Losses()
    return read_request(body_of(name), losses, Knobs()), losses.counts


def translated(name: str, upstream: str) -> tuple[Translation, Json]:
    translation = translate(direction("responses", upstream), json.dumps(body_of(name)).encode())
    return translation, json.loads(translation.body)


def declared(body: Json) -> list[str]:
    """The flattened names of every tool that a body declares, wherever it stands, without the provider-run ones."""
    names: list[str] = []
    lists = [body.get("tools") or []]
    if type(body["input"]) is list:
        lists += [item["tools"] for item in body["input"] if "tools" in item]
    for tool in (tool for tools in lists for tool in tools):
        if tool["type"] == "namespace":
            names += [f"{tool['name']}__{inner['name']}" for inner in tool["tools"]]
        elif tool["type"] != "web_search":
            names.append(tool.get("name", tool["type"]))
    return names


def test_there_are_recordings() -> None:
    assert len(recorded()) >= 50


@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem)
def test_every_recorded_request_reaches_both_dialects_with_all_its_tools(path: Path) -> None:
    body = body_of(path.stem)
    losses = Losses()
    read_request(body, losses, Knobs())
    assert LossCode.UNKNOWN_FIELD not in losses.counts
    wanted = declared(body)
    chat = translated(path.stem, "chat")[1]
    assert [tool[tool["type"]]["name"] for tool in chat.get("tools", [])] == wanted
    messages = translated(path.stem, "messages")[1]
    assert [tool["name"] for tool in messages.get("tools", [])] == wanted
    for sent in (chat, messages):
        assert "client_metadata" not in sent
        assert ("tool_choice" in sent) <= bool(wanted)


@pytest.mark.parametrize("name", ["openai-node-responses-prev_tool_2", "openai-python-responses-prev_tool_2"])
def test_requests_that_build_on_stored_state_are_refused(name: str) -> None:
    with pytest.raises(Unsupported) as caught:
        read(name)
    assert caught.value.failure.param == "previous_response_id"


# --- Codex ------------------------------------------------------------------------------------------------------------


def test_codex_namespaces() -> None:
    request, _ = read("codex_namespace_3")
    spaces = {tool.name: tool.namespace.name for tool in request.tools if tool.namespace is not None}
    assert spaces["add_note"] == "mcp__notes"
    calls = [part for turn in request.turns for part in turn.parts if type(part) is ToolCall]
    assert {call.namespace for call in calls} == {"mcp__notes"}
    translation, chat = translated("codex_namespace_3", "chat")
    sent = [call["function"]["name"] for message in chat["messages"] for call in message.get("tool_calls", ())]
    assert sent == [f"mcp__notes__{call.name}" for call in calls]
    back = translation.context.tools["mcp__notes__add_note"]
    assert (back.name, back.namespace, back.kind) == ("add_note", "mcp__notes", "function")


def test_T50_codex_patches_come_as_custom_tools_and_go_back_as_such() -> None:
    request, _ = read("codex_patch-write_2")
    (patch,) = [tool for tool in request.tools if tool.kind == "custom"]
    assert patch.name == "apply_patch"
    (call,) = [part for turn in request.turns for part in turn.parts if type(part) is ToolCall]
    assert call.custom
    assert call.arguments.startswith("*** Begin Patch")
    result = request.turns[-1].parts[0]
    assert type(result) is ToolResult
    assert (result.custom, result.call_id) == (True, call.id)
    for upstream in ("chat", "messages"):
        translation, _ = translated("codex_patch-write_2", upstream)
        if upstream == "messages":
            assert translation.context.tools["apply_patch"].kind == "custom"
        else:
            assert "apply_patch" not in translation.context.tools  # Chat has the kind itself


def test_codex_lite_declares_its_tools_in_an_item() -> None:
    request, counts = read("codex_lite-image_2")
    assert body_of("codex_lite-image_2").get("tools") is None
    assert ("functions", "exec", "custom") in [
        (tool.namespace.name, tool.name, tool.kind) for tool in request.tools if tool.namespace is not None
    ]
    assert LossCode.TOOL_TIMELINE not in counts
    assert request.turns[0].role == "instruction"
    assert "tools" not in request.echo
    translation, _ = translated("codex_lite-image_2", "messages")
    back = translation.context.tools["functions__exec"]
    assert (back.name, back.namespace, back.kind) == ("exec", "functions", "custom")


def test_codex_finds_tools_by_search() -> None:
    request, _ = read("codex_patch-search_3")
    search = next(tool for tool in request.tools if tool.name == "tool_search")
    assert search.kind == "search"
    added = request.tools[-2:]
    assert [(tool.name, tool.namespace and tool.namespace.name) for tool in added] == [
        ("add_note", "mcp__notes"),
        ("get_pic", "mcp__notes"),
    ]
    parts = [part for turn in request.turns for part in turn.parts]
    assert [type(part).__name__ for part in parts[-4:]] == ["ToolCall", "ToolResult"] * 2
    translation, chat = translated("codex_patch-search_3", "chat")
    assert translation.context.tools["tool_search"].kind == "search"
    results = [message["content"] for message in chat["messages"] if message["role"] == "tool"]
    assert results[0] == "Tools found: mcp__notes__add_note, mcp__notes__get_pic"


def test_codex_compaction_sends_no_tools_and_no_choice() -> None:
    request, _ = read("codex_compaction_2")
    assert request.tools == []
    assert request.tool_choice is not None
    for upstream in ("chat", "messages"):
        sent = translated("codex_compaction_2", upstream)[1]
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)


def test_T40_texts_that_are_empty_are_not_sent() -> None:
    body = {
        "model": "m",
        "instructions": "",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": ""}, {"type": "input_text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": []}]},
            {"role": "user", "content": "go on"},
        ],
    }
    raw = json.dumps(body).encode()
    sent = json.loads(translate(direction("responses", "messages"), raw).body)
    texts = [{"type": "text", "text": text} for text in ("hi", "go on")]
    assert (sent["messages"], sent.get("system")) == ([{"role": "user", "content": texts}], None)


def test_messages_of_one_turn_stay_apart() -> None:
    items = [{"role": "user", "content": "hi"}, *({"role": "assistant", "content": text} for text in ("one", "two"))]
    raw = json.dumps({"model": "m", "input": [*items, {"role": "user", "content": "and?"}]}).encode()
    sent = json.loads(translate(direction("responses", "chat"), raw).body)
    assert [message["content"] for message in sent["messages"]] == ["hi", "one\n\ntwo", "and?"]


def test_asynchronous_tools_are_refused() -> None:
    tool = {"type": "function", "name": "f", "async": True}
    raw = json.dumps({"model": "m", "input": "hi", "tools": [tool]}).encode()
    for upstream in ("chat", "messages"):
        with pytest.raises(Unsupported) as caught:
            translate(direction("responses", upstream), raw)
        assert caught.value.failure.param == "tools[0].async"


# --- hostile bodies ---------------------------------------------------------------------------------------------------

_F: Json = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
_PATCH: Json = {"type": "custom", "name": "p", "format": {"type": "grammar", "syntax": "lark", "definition": "s"}}
_MARK: Json = {"mode": "explicit", "ttl": "30m"}
RICH: Json = {
    "model": "m",
    "stream": False,
    "instructions": "i",
    "input": [
        {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [{**_F, "name": "later"}]},
        {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}},
        {"role": "developer", "content": [{"type": "input_text", "text": "d"}]},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "u", "prompt_cache_breakpoint": _MARK},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "content": [{"type": "reasoning_text", "text": "t"}],
            "encrypted_content": "dgm1.e30",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "https://x"}]},
                {"type": "refusal", "refusal": "r"},
            ],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call", "call_id": "c1", "name": "f", "namespace": "ns", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x", "caller": {"type": "direct"}},
        {"type": "tool_search_call", "call_id": "c3", "execution": "client", "arguments": {"query": "q"}},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "o"}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "o"},
        {"type": "tool_search_output", "call_id": "c3", "execution": "client", "tools": [{**_F, "name": "found"}]},
        {"role": "user", "content": "go on"},
    ],
    "tools": [
        {**_F, "defer_loading": True, "allowed_callers": ["direct"], "output_schema": {}, "async": False},
        _PATCH,
        {"type": "namespace", "name": "ns", "description": "n", "tools": [_F, _PATCH]},
        {"type": "tool_search", "execution": "client", "description": "d", "parameters": {"type": "object"}},
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["x"]},
            "user_location": {"type": "approximate", "city": "c"},
            "search_context_size": "low",
        },
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "parallel_tool_calls": True,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto", "context": "auto", "mode": "standard"},
    "include": ["reasoning.encrypted_content"],
    "max_output_tokens": 100,
    "temperature": 1.0,
    "top_p": 1.0,
    "truncation": "disabled",
    "metadata": {"k": "v"},
    "user": "u",
    "prompt_cache_key": "k",
    "prompt_cache_options": {"ttl": "30m"},
    "service_tier": "auto",
    "store": False,
    "stream_options": {"include_obfuscation": False},
}


@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_the_rich_body_is_read(upstream: str) -> None:
    translate(direction("responses", upstream), json.dumps(RICH).encode())


ODD: tuple[Any, ...] = (None, True, -1, 1.5, "", "x", [], [None], {}, {"type": "x"})


def complaint(body: Json) -> ClientRequestError | None:
    """Returns the error that the reader raises for a body, if it is one of its own."""
    try:
        read_request(body, Losses(), Knobs())
    except ClientRequestError as error:
        return error
    return None


def test_a_wrong_value_anywhere_is_rejected_by_its_field() -> None:
    body = copy.deepcopy(RICH)
    rejected = 0
    for container, key in places(body):
        kept = container[key]
        for value in ODD:
            container[key] = copy.deepcopy(value)
            error = complaint(body)
            if error is not None:
                rejected += 1
                assert error.failure.param, (key, value)
        container[key] = kept
    assert body == RICH
    assert rejected > 500


def test_a_missing_key_anywhere_is_rejected_by_its_field() -> None:
    for number in range(len(places(RICH))):
        body = copy.deepcopy(RICH)
        container, key = places(body)[number]
        del container[key]
        error = complaint(body)
        assert error is None or error.failure.param, key


@pytest.mark.parametrize("upstream", ["chat", "messages"])
def test_what_the_reader_lets_through_never_breaks_a_writer(upstream: str) -> None:
    body = copy.deepcopy(RICH)
    for container, key in places(body):
        kept = container[key]
        for value in (None, 7, "x", [None], {"type": "x"}):
            container[key] = copy.deepcopy(value)
            with suppress(DragomanError):
                translate(direction("responses", upstream), b"", payload=body, knobs=Knobs(hosted_tools="map"))
        container[key] = kept
    assert body == RICH


def read_twice(body: Any) -> None:
    before = copy.deepcopy(body)
    first = translate(direction("responses", "messages"), b"", payload=body).body
    assert translate(direction("responses", "messages"), b"", payload=body).body == first
    assert body == before


def test_T81_equal_bodies_have_equal_bytes_and_stay_unchanged() -> None:
    read_twice(copy.deepcopy(RICH))
    read_twice(body_of("codex_patch-search_3"))
