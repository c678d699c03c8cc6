"""Calls and outputs of built-in tools in a history: functions for most upstreams, items for OpenAI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.parts import Json, ToolCall, ToolResult
from dragoman.dialects.directions import direction
from dragoman.dialects.responses.built_in_items import read_call, read_output, write_output
from dragoman.knobs import Knobs
from dragoman.losses import LossCode
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman.translate_request import Translation, translate
from oracles.requests import check
from support.responses_input import USER, call, output, read

AT = ("input", 0)
OPENAI = builtin_profile("responses").replace({"rewrite": True})
UPSTREAMS = [
    ("chat", None),
    ("messages", None),
    ("responses", builtin_profile("responses", "compatible").replace({"rewrite": True})),
]
each_upstream = pytest.mark.parametrize(("upstream", "profile"), UPSTREAMS, ids=[name for name, _ in UPSTREAMS])
RAN = [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
PATCH = {"type": "create_file", "path": "a.py", "diff": "+" + "x" * 2000}
EXEC = {"type": "exec", "command": ["ls"], "env": {}}
SHELL: Json = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "c1",
    "action": {"commands": ["ls"], "timeout_ms": None},
    "status": "completed",
}
HISTORY: list[Json] = [
    SHELL,
    {"type": "local_shell_call", "id": "lsh_1", "call_id": "c2", "action": EXEC, "status": "completed"},
    {"type": "apply_patch_call", "id": "apc_1", "call_id": "c3", "operation": PATCH, "status": "completed"},
    {"type": "shell_call_output", "call_id": "c1", "output": RAN},
    {"type": "local_shell_call_output", "id": "c2", "output": "b.py"},
    {"type": "apply_patch_call_output", "call_id": "c3", "status": "failed", "output": "no such file"},
]


def sent(upstream: str, profile: Profile | None, *items: Json, **knobs: Any) -> tuple[Json, Translation]:
    body = json.dumps({"model": "m", "input": [USER, *items]}).encode()
    translation = translate(direction("responses", upstream), body, profile=profile, knobs=Knobs(**knobs))
    return check(upstream, json.loads(translation.body), {"anthropic-version": "2023-06-01"}), translation


def test_calls_have_what_is_to_be_done_as_arguments() -> None:
    assert read_call(SHELL, "c", AT) == ToolCall("c", "shell", '{"commands":["ls"]}', AT, built_in="shell")
    assert json.loads(read_call(HISTORY[2], "c", AT).arguments) == PATCH
    assert read_call({"type": "local_shell_call"}, "c", AT).arguments == "{}"


@pytest.mark.parametrize(
    ("item", "content", "failed"),
    [
        ({"type": "shell_call_output", "output": RAN}, json.dumps(RAN, separators=(",", ":")), False),
        ({"type": "shell_call_output", "output": [{"outcome": {"type": "exit", "exit_code": 2}}]}, None, True),
        ({"type": "shell_call_output", "output": [{"outcome": {"type": "timeout"}}]}, None, True),
        ({"type": "local_shell_call_output", "output": "x"}, "x", False),
        ({"type": "apply_patch_call_output", "status": "failed", "output": "no"}, "no", True),
        ({"type": "apply_patch_call_output", "status": "failed"}, "failed", True),
        ({"type": "apply_patch_call_output", "status": "completed"}, "completed", False),
    ],
)
def test_outputs_are_results(item: Json, content: str | None, failed: bool) -> None:
    result = read_output(item, "c", AT)
    assert result.is_error is failed
    assert content is None or result.content == content
    assert result == ToolResult("c", result.content, AT, failed, built_in=item["type"].removesuffix("_call_output"))


@each_upstream
def test_a_history_is_calls_and_results(upstream: str, profile: Profile | None) -> None:
    body, translation = sent(upstream, profile, *HISTORY)
    text = json.dumps(body)
    assert all(f'"{kind["type"]}"' not in text for kind in HISTORY)
    assert all(word in text for word in ("a.py", "b.py", "no such file", PATCH["diff"]))
    assert translation.losses.counts[LossCode.ITEM_SHAPE] == len(HISTORY)
    assert not {LossCode.ORPHAN_DROPPED, LossCode.ORPHAN_REPAIRED, LossCode.UNKNOWN_FIELD} & set(
        translation.losses.counts
    )


def test_openai_gets_items() -> None:
    body, translation = sent("responses", OPENAI, *HISTORY)
    assert body["input"][1:] == [
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "local_shell_call", "call_id": "c2", "action": EXEC, "status": "completed"},
        {"type": "apply_patch_call", "call_id": "c3", "operation": PATCH, "status": "completed"},
        {"type": "shell_call_output", "call_id": "c1", "output": RAN},
        {"type": "local_shell_call_output", "call_id": "c2", "output": "b.py"},
        {"type": "apply_patch_call_output", "call_id": "c3", "output": "no such file", "status": "failed"},
    ]
    assert not translation.losses


def test_a_call_without_an_output_gets_one_of_its_kind() -> None:
    body, translation = sent("responses", OPENAI, SHELL, HISTORY[2], USER)
    shell, patch = body["input"][3:5]
    assert (shell["type"], shell["output"][0]["outcome"]["exit_code"]) == ("shell_call_output", 1)
    assert (patch["type"], patch["status"]) == ("apply_patch_call_output", "failed")
    assert translation.losses.counts == {LossCode.ORPHAN_REPAIRED: 2}


def test_codex_answers_a_local_shell_as_a_function() -> None:
    """Its own upstream takes that, so it is sent on."""
    body = json.dumps({"model": "m", "input": [USER, HISTORY[1], output("c2")]}).encode()
    translation = translate(direction("responses", "responses"), body, profile=OPENAI)
    items = json.loads(translation.body)["input"]
    assert [item["type"] for item in items[1:]] == ["local_shell_call", "function_call_output"]
    assert not translation.losses


def test_an_output_that_was_shortened_is_that_of_one_command() -> None:
    entry = {"stdout": "[...", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
    wanted = {"type": "shell_call_output", "call_id": "c", "output": [entry]}
    assert write_output("shell", "c", "[...", is_error=True) == wanted


def test_what_is_not_sent_is_recorded() -> None:
    program = {"type": "program", "caller_id": "p"}
    _, rows = read(USER, {**SHELL, "caller": program, "colour": "red"}, {**HISTORY[3], "caller": program})
    assert rows == [
        (LossCode.UNKNOWN_FIELD, "input[1].colour"),
        (LossCode.CALL_META, "input[1].caller"),
        (LossCode.CALL_META, "input[2].caller"),
    ]
    _, rows = read(USER, call("c1"), output("c1"))
    assert rows == []
