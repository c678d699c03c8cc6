"""Items that Codex sends for its sub-agents and scheduled tasks, where a request passes through."""

from __future__ import annotations

import json

import pytest

from dragoman.canonical.request import Json
from dragoman.dialects.directions import direction
from dragoman.profiles.profile import builtin_profile
from dragoman.translate_request import translate
from support.responses_input import ASSISTANT, USER, call, output

COMPATIBLE = builtin_profile("responses", "compatible")
REPORTED: Json = {
    "type": "agent_message",
    "id": "amsg_1",
    "author": "/root",
    "recipient": "/root/other",
    "content": [{"type": "input_text", "text": "Message Type: NEW_TASK\nSender: /root\nPayload:\n"}],
}
SPAWN: Json = {
    "type": "function",
    "name": "spawn_agent",
    "parameters": {"type": "object", "properties": {"message": {"type": "string", "encrypted": True}}},
}
FORWARDED: dict[str, Json] = {
    "message": {"input": [USER, REPORTED, ASSISTANT, USER]},
    "task": {
        "input": [USER, {"type": "function_call_output", "name": "heartbeat", "output": "Look."}, ASSISTANT, USER]
    },
    "tool": {"input": "Hi", "tools": [SPAWN]},
    "tool of a namespace": {"input": "Hi", "tools": [{"type": "namespace", "name": "n", "tools": [SPAWN]}]},
    "found tool": {"input": [USER, {"type": "additional_tools", "role": "developer", "tools": [SPAWN]}]},
}


@pytest.mark.parametrize("fields", FORWARDED.values(), ids=FORWARDED)
@pytest.mark.parametrize("name", ["compatible", "deepseek", "openai", "azure"])
def test_a_compatible_server_gets_no_items_of_agents_where_others_pass_through(name: str, fields: Json) -> None:
    body = json.dumps({"model": "m", **fields}).encode()
    translation = translate(direction("responses", "responses"), body, profile=builtin_profile("responses", name))
    if name in ("openai", "azure"):
        assert translation.body == body
        return
    assert translation.rewritten
    request = json.loads(translation.body)
    assert all(item.get("type") != "agent_message" and item.get("call_id") is None for item in request["input"])
    assert all(not item.get("type", "message").endswith("_output") for item in request["input"])
    assert '"encrypted"' not in translation.body.decode()


def test_a_compatible_server_gets_other_bodies_as_they_are() -> None:
    fields = {"input": [USER, call("c"), output("c", 'the key "encrypted": true')], "metadata": {"encrypted": "x"}}
    body = json.dumps({"model": "m", **fields}).encode()
    translation = translate(direction("responses", "responses"), body, profile=COMPATIBLE)
    assert (translation.body, translation.rewritten) == (body, False)


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_of_a_compatible_server_is_plain_text_for_codex(stream: bool) -> None:
    body = json.dumps({"model": "m", "input": "Hi", "tools": [SPAWN], "stream": stream}).encode()
    translation = translate(direction("responses", "responses"), body, profile=COMPATIBLE)
    assert not translation.passthrough
    assert translation.context.plain_calls == {(None, "spawn_agent")}
