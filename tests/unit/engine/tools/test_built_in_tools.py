"""OpenAI's client-run tools at other upstreams: functions whose calls come back as items of the tool."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.request import Tool
from dragoman.dialects.directions import direction
from dragoman.errors import ClientRequestError, Unsupported, UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.tools.built_in_tools import BUILT_IN_TOOLS, become_built_in_function, built_in_names, read_action
from dragoman.translate_request import Translation, translate
from oracles.grammar import responses
from oracles.requests import check
from regressions.dialect_bodies import assistant_turn, interleaved, replied
from support import responses_frames as frames
from support.directions import Json, judge, stream_through
from support.responses_samples import numbered

HEADERS = {"anthropic-version": "2023-06-01"}
COMPATIBLE = builtin_profile("responses", "compatible").replace({"rewrite": True})
OPENAI = builtin_profile("responses").replace({"rewrite": True})
UPSTREAMS: list[tuple[str, Profile | None]] = [("chat", None), ("messages", None), ("responses", COMPATIBLE)]
SHELL = {"type": "shell"}
TOOLS = [SHELL, {"type": "local_shell"}, {"type": "apply_patch"}]
UPDATE: Json = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"}
CALLS: dict[str, tuple[Json, str]] = {
    "shell": ({"commands": ["ls", "pwd"], "timeout_ms": 1000}, "action"),
    "local_shell": ({"command": ["ls"], "env": {"A": "b"}, "working_directory": "/"}, "action"),
    "apply_patch": (UPDATE, "operation"),
}
ACTIONS: dict[str, Json] = {
    "shell": CALLS["shell"][0],
    "local_shell": {"type": "exec", **CALLS["local_shell"][0]},
    "apply_patch": UPDATE,
}
each_upstream = pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
each_tool = pytest.mark.parametrize("name", sorted(BUILT_IN_TOOLS))


def asked(upstream: str, profile: Profile | None, tools: list[Any] = TOOLS, **fields: Any) -> tuple[Json, Translation]:
    body = {"model": "m", "input": "Go", "tools": tools, **fields}
    translation = translate(direction("responses", upstream), json.dumps(body).encode(), profile=profile)
    return check(upstream, json.loads(translation.body), HEADERS), translation


def called(name: str, arguments: Any, call_id: str = "c1") -> tuple[str, str, str, str]:
    return "call", call_id, name, arguments if isinstance(arguments, str) else json.dumps(arguments)


def test_each_has_the_parameters_of_its_action() -> None:
    for name, wanted in [
        ("shell", {"commands", "timeout_ms", "max_output_length"}),
        ("local_shell", {"command", "working_directory", "env", "timeout_ms", "user"}),
        ("apply_patch", {"type", "path", "diff"}),
    ]:
        tool = Tool("typed", name, (), native={"type": name}, origin="responses")
        assert built_in_names([tool]) == {name}
        become_built_in_function(tool)
        assert (tool.kind, tool.native) == ("function", {})
        assert tool.description
        assert tool.schema is not None
        assert set(tool.schema["properties"]) == wanted
        assert set(tool.schema["required"]) <= wanted
        assert built_in_names([tool]) == frozenset()


def test_the_skills_of_a_local_environment_are_described() -> None:
    skill = {"name": "csv", "description": "Reads tables.", "path": "/skills/csv"}
    body, _ = asked("chat", None, [{"type": "shell", "environment": {"type": "local", "skills": [skill]}}])
    assert "- csv (/skills/csv): Reads tables." in body["tools"][0]["function"]["description"]


@each_upstream
@pytest.mark.parametrize("choice", [None, "required", {"type": "apply_patch"}])
def test_they_travel_as_functions(upstream: str, profile: Profile | None, choice: Any) -> None:
    fields = {"tool_choice": choice} if choice else {}
    body, translation = asked(upstream, profile, **fields)
    tools = [tool.get("function", tool) for tool in body["tools"]]
    assert [tool["name"] for tool in tools] == ["shell", "local_shell", "apply_patch"]
    assert all("parameters" in tool or "input_schema" in tool for tool in tools)
    assert translation.losses.counts == {LossCode.TYPED_TOOL: 3} | (
        {LossCode.CAP_ADDED: 1} if upstream == "messages" else {}
    )
    if isinstance(choice, dict):
        assert "apply_patch" in json.dumps(body["tool_choice"])


@each_upstream
@each_tool
def test_their_calls_come_back_as_items(upstream: str, profile: Profile | None, name: str) -> None:
    arguments, key = CALLS[name]
    call = called(name, arguments)
    _, translation = asked(upstream, profile)
    whole = json.loads(translation.reply(json.dumps(replied(upstream, call)).encode()))
    responses.check_whole(whole)
    item = whole["output"][-1]
    assert (item["type"], item["call_id"], item["status"]) == (f"{name}_call", "c1", "completed")
    assert item[key] == ACTIONS[name]
    _, translation = asked(upstream, profile, stream=True)
    (seen,) = judge("responses", stream_through(translation, assistant_turn(upstream, call))).calls
    assert (seen.kind, seen.name, json.loads(seen.arguments)) == ("built_in", name, ACTIONS[name])
    assert LossCode.REPLY_REPAIRED not in translation.losses.counts


@each_upstream
def test_calls_side_by_side_stay_apart(upstream: str, profile: Profile | None) -> None:
    parts = [called(name, arguments, f"c_{name}") for name, (arguments, _) in CALLS.items()]
    parts.insert(1, called("f", {"a": 1}, "c_f"))
    tools = [*TOOLS, {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
    for stream in (assistant_turn(upstream, *parts), interleaved(upstream, *parts)):
        _, translation = asked(upstream, profile, tools, stream=True)
        seen = judge("responses", stream_through(translation, stream)).calls
        assert {call.id for call in seen} == {part[1] for part in parts}
        assert {call.name: call.kind for call in seen} == {**dict.fromkeys(CALLS, "built_in"), "f": "function"}


BAD: list[tuple[str, Any]] = [
    ("shell", {}),
    ("shell", {"commands": []}),
    ("shell", {"commands": [1]}),
    ("shell", "[]"),
    ("local_shell", {"command": ""}),
    ("apply_patch", {"type": "rename", "path": "a"}),
    ("apply_patch", {"type": "create_file", "path": "a"}),
    ("apply_patch", {"type": "delete_file", "path": ""}),
]


@each_upstream
@pytest.mark.parametrize(("name", "arguments"), BAD)
def test_a_call_without_what_it_needs_is_an_error(
    upstream: str, profile: Profile | None, name: str, arguments: Any
) -> None:
    """Clients run every call of these items that they get."""
    call = called(name, arguments)
    _, translation = asked(upstream, profile)
    with pytest.raises(UpstreamProtocolError):
        translation.reply(json.dumps(replied(upstream, call)).encode())
    _, translation = asked(upstream, profile, stream=True)
    seen = judge("responses", stream_through(translation, assistant_turn(upstream, call)))
    assert (seen.finish, seen.calls) == ("failed", [])


def test_odd_arguments_with_one_meaning_are_read() -> None:
    losses = Losses()
    assert read_action("shell", '{"commands":"ls"}', losses) == {"commands": ["ls"]}
    line = {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}
    assert read_action("local_shell", '{"command":"ls | wc"}', losses) == line
    assert losses.counts == {LossCode.REPLY_REPAIRED: 2}
    assert read_action("apply_patch", json.dumps({"operation": UPDATE}), losses) == UPDATE
    gone = '{"type":"delete_file","path":"a","diff":null}'
    assert read_action("apply_patch", gone, losses) == {"type": "delete_file", "path": "a"}
    assert LossCode.TYPED_TOOL not in losses.counts
    more = '{"commands":["ls"],"timeout_ms":"soon","max_output_length":9,"shell":"zsh"}'
    assert read_action("shell", more, losses) == {"commands": ["ls"], "max_output_length": 9}
    assert losses.counts[LossCode.TYPED_TOOL] == 1


CUT_CHAT = [
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"shell",'
    b'"arguments":"{\\"commands\\":[\\"rm -rf a"}}]},"finish_reason":null}]}\n\n',
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},'
    b'"finish_reason":"length"}]}\n\ndata: [DONE]\n\n',
]


def test_a_call_that_was_cut_is_left_out() -> None:
    _, translation = asked("chat", None, stream=True)
    seen = judge("responses", stream_through(translation, CUT_CHAT))
    assert (seen.finish, seen.calls) == ("incomplete/max_output_tokens", [])
    assert translation.losses.counts[LossCode.CALL_CUT] == 1
    _, translation = asked("chat", None)
    reply = replied("chat", called("shell", '{"commands":["rm'))
    reply["choices"][0]["finish_reason"] = "length"
    whole = json.loads(translation.reply(json.dumps(reply).encode()))
    assert (whole["status"], whole["output"]) == ("incomplete", [])
    assert translation.losses.counts[LossCode.CALL_CUT] == 1


# --- OpenAI's own server ----------------------------------------------------------------------------------------------


@each_tool
def test_openai_gets_the_tools_and_its_calls_come_back(name: str) -> None:
    """Also on a route whose requests are rewritten."""
    body, translation = asked("responses", OPENAI, stream=True, tool_choice={"type": name})
    assert body["tools"] == TOOLS
    assert body["tool_choice"] == {"type": name}
    assert not translation.losses
    key = CALLS[name][1]
    action = {**ACTIONS[name], **({"max_output_length": None} if name == "shell" else {})}
    item = {"type": f"{name}_call", "id": "x_1", "call_id": "c1", "status": "completed", key: action}
    started = {**item, "status": "in_progress"}
    stream = numbered(
        frames.created(),
        frames.added(0, **started),
        {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "l"},
        frames.done(0, **item),
        frames.ended(item),
    )
    (seen,) = judge("responses", stream_through(translation, stream)).calls
    assert (seen.kind, json.loads(seen.arguments)) == ("built_in", ACTIONS[name])
    _, translation = asked("responses", OPENAI)
    whole = json.loads(translation.reply(json.dumps({**replied("responses"), "output": [item]}).encode()))
    assert whole["output"][0][key] == ACTIONS[name]


def test_an_item_of_a_tool_that_is_not_declared_is_an_error() -> None:
    item = {"type": "shell_call", "id": "x_1", "call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}}
    _, translation = asked("responses", OPENAI, [TOOLS[2]])
    with pytest.raises(UpstreamProtocolError, match="shell_call"):
        translation.reply(json.dumps({**replied("responses"), "output": [item]}).encode())


@each_upstream
def test_a_shell_of_the_providers_own_is_no_function(upstream: str, profile: Profile | None) -> None:
    hosted = {"type": "shell", "environment": {"type": "container_auto"}}
    body, translation = asked(upstream, profile, [hosted])
    if upstream == "responses":
        assert body["tools"] == [hosted]
    else:
        assert not body.get("tools")
        assert LossCode.HOSTED_TOOL in translation.losses.counts


def test_a_second_tool_of_the_name_and_a_strict_request_are_refused() -> None:
    function = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}
    with pytest.raises(ClientRequestError, match="shell"):
        asked("chat", None, [SHELL, function])
    body = {"model": "m", "input": "Go", "tools": [SHELL]}
    with pytest.raises(Unsupported, match="typed_tool"):
        translate(direction("responses", "chat"), json.dumps(body).encode(), knobs=Knobs(on_loss="reject"))
