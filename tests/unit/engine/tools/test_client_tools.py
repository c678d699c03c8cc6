"""Anthropic's client-run tools at other upstreams: functions whose calls come back as the client's tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.request import Tool
from dragoman.dialects.directions import direction
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.client_tools import become_function
from dragoman.translate_request import Translation, translate
from oracles.requests import check
from regressions.dialect_bodies import assistant_turn, replied
from support.directions import Json, judge, stream_through

HEADERS = {"anthropic-version": "2023-06-01"}
TYPES = {
    "bash_20250124": {"command", "restart"},
    "bash_20241022": {"command", "restart"},
    "text_editor_20241022": {"command", "path", "file_text", "old_str", "new_str", "insert_line", "view_range"},
    "text_editor_20250728": {
        "command",
        "path",
        "file_text",
        "old_str",
        "new_str",
        "insert_line",
        "insert_text",
        "view_range",
    },
    "memory_20250818": {
        "command",
        "path",
        "file_text",
        "old_str",
        "new_str",
        "insert_line",
        "insert_text",
        "view_range",
        "old_path",
        "new_path",
    },
    "computer_20241022": {"action", "coordinate", "start_coordinate", "text"},
    "computer_20250124": {
        "action",
        "coordinate",
        "start_coordinate",
        "text",
        "scroll_direction",
        "scroll_amount",
        "duration",
    },
}
UPSTREAMS: list[tuple[str, Profile | None]] = [
    ("chat", None),
    ("responses", None),
    ("responses", builtin_profile("responses", "compatible")),
    ("messages", builtin_profile("messages", "vllm")),
]
EDITOR = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 100}
BASH = {"type": "bash_20250124", "name": "bash"}
COMPUTER = {"type": "computer_20250124", "name": "computer", "display_width_px": 1024, "display_height_px": 768}
CALL = ("call", "c1", "bash", '{"command":"ls"}')


def made(kind: str, **more: Any) -> Tool:
    tool = Tool("typed", "t", (), native={"type": kind, "name": "t", **more})
    become_function(tool)
    return tool


def asked(upstream: str, profile: Profile | None, *tools: Json, **fields: Any) -> tuple[Json, Translation]:
    body = {
        "model": "m",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Go"}],
        "tools": list(tools),
        **fields,
    }
    translation = translate(direction("messages", upstream), json.dumps(body).encode(), profile=profile)
    return check(upstream, json.loads(translation.body), HEADERS), translation


@pytest.mark.parametrize(("kind", "parameters"), TYPES.items())
def test_each_type_has_the_parameters_of_its_tool(kind: str, parameters: set[str]) -> None:
    tool = made(kind)
    assert tool.kind == "function"
    assert tool.description
    assert tool.schema is not None
    assert set(tool.schema["properties"]) == parameters
    assert set(tool.schema["required"]) <= parameters


def test_versions_and_options_decide() -> None:
    def commands(tool: Tool, key: str = "command") -> list[str]:
        assert tool.schema is not None
        words: list[str] = tool.schema["properties"][key]["enum"]
        return words

    assert "undo_edit" in commands(made("text_editor_20250124"))
    assert "undo_edit" not in commands(made("text_editor_20250429"))
    assert "zoom" not in commands(made("computer_20251124"), "action")
    assert "zoom" in commands(made("computer_20251124", enable_zoom=True), "action")
    assert "scroll" not in commands(made("computer_20241022"), "action")
    assert "1024 x 768 pixels" in str(
        made("computer_20250124", display_width_px=1024, display_height_px=768).description
    )


@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS)
@pytest.mark.parametrize("choice", [None, {"type": "any"}, {"type": "tool", "name": "bash"}])
def test_they_travel_as_functions_and_come_back(upstream: str, profile: Profile | None, choice: Json | None) -> None:
    fields = {"tool_choice": choice} if choice else {}
    body, translation = asked(upstream, profile, BASH, EDITOR, COMPUTER, **fields)
    tools = [tool.get("function", tool) for tool in body["tools"]]
    assert [tool["name"] for tool in tools] == ["bash", "str_replace_based_edit_tool", "computer"]
    assert all("parameters" in tool or "input_schema" in tool for tool in tools)
    assert translation.losses.counts[LossCode.TYPED_TOOL] == 3
    if choice == {"type": "tool", "name": "bash"}:
        assert "bash" in json.dumps(body["tool_choice"])
    whole = json.loads(translation.reply(json.dumps(replied(upstream, CALL)).encode()))
    block = whole["content"][-1]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "bash", {"command": "ls"})
    _, translation = asked(upstream, profile, BASH, stream=True)
    (call,) = judge("messages", stream_through(translation, assistant_turn(upstream, CALL))).calls
    assert (call.name, json.loads(call.arguments)) == ("bash", {"command": "ls"})


@pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS)
def test_their_calls_and_results_in_the_history_stay_calls(upstream: str, profile: Profile | None) -> None:
    called = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
    ]
    body, translation = asked(upstream, profile, BASH, messages=messages)
    assert json.dumps(body).count("a.py") == 1
    assert set(translation.losses.counts) == {LossCode.TYPED_TOOL}


@pytest.mark.parametrize("name", ["anthropic", "bedrock-invoke", "copilot"])
def test_claude_gets_them_as_they_are(name: str) -> None:
    profile = builtin_profile("messages", name).replace({"rewrite": True})
    body, translation = asked("messages", profile, BASH, EDITOR)
    assert body["tools"] == [BASH, EDITOR]
    assert LossCode.TYPED_TOOL not in translation.losses.counts


def test_options_that_functions_lack_are_rows_and_a_second_tool_of_the_name_is_refused() -> None:
    options = {"cache_control": {"type": "ephemeral"}, "input_examples": [{"command": "ls"}], "defer_loading": True}
    _, translation = asked("chat", None, {**BASH, **options})
    wanted = {LossCode.CACHE_HINT, LossCode.TOOL_OPTION, LossCode.TOOL_SEARCH, LossCode.TYPED_TOOL}
    assert set(translation.losses.counts) == wanted
    with pytest.raises(ClientRequestError, match="bash"):
        asked("chat", None, BASH, {"name": "bash", "input_schema": {"type": "object"}})


def test_a_toolset_and_a_strict_request_are_refused() -> None:
    with pytest.raises(Unsupported):
        asked("chat", None, {"type": "computer_toolset_20260801", "name": "computer"})
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Go"}], "tools": [BASH]}
    with pytest.raises(Unsupported, match="typed_tool"):
        translate(direction("messages", "chat"), json.dumps(body).encode(), knobs=Knobs(on_loss="reject"))


@pytest.mark.parametrize("kind", ["computer_20251124computer_20251124", "bash_", "memory_2025_08_18", "text_editor__"])
def test_what_follows_the_beginning_of_a_type_is_its_version(kind: str) -> None:
    """Found by fuzzing: the first of these was answered with status 500."""
    tool = made(kind)
    assert tool.kind == "function"
    assert tool.schema is not None
