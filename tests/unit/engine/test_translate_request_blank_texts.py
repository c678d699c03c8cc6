"""No empty block reaches an upstream that refuses it (T-40; mapping §4.2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.losses import LossCode
from support.canonical_turns import translated


def empties(value: Any) -> list[Any]:
    """Empty text parts and messages with nothing in them, anywhere in a body."""
    found = []
    if isinstance(value, dict):
        if value.get("type") in ("text", "input_text", "output_text") and not value.get("text", "").strip():
            found.append(value)
        if value.get("role") in ("user", "assistant", "system") and value.get("content") in ("", []):
            found.append(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += empties(inner)
    return found


EMPTY = {"type": "text", "text": ""}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": ""},
        {"role": "user", "content": [EMPTY, {"type": "text", "text": "go"}]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": ""}]},
        {"role": "user", "content": ""},
        {"role": "user", "content": "on"},
    ],
}  # fmt: skip
MESSAGES = {
    "model": "m",
    "max_tokens": 99,
    "system": [{"type": "text", "text": ""}],
    "messages": [
        {"role": "user", "content": [EMPTY, {"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [EMPTY, USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [EMPTY]}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "on"},
    ],
}  # fmt: skip
RESPONSES = {
    "model": "m",
    "input": [
        {"type": "message", "role": "developer", "content": ""},
        {"role": "user", "content": [{"type": "input_text", "text": ""}, {"type": "input_text", "text": "go"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": []}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": ""}]},
        {"role": "user", "content": ""},
        {"role": "user", "content": "on"},
    ],
}  # fmt: skip
BODIES = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
CROSS = [(client, upstream) for client in BODIES for upstream in BODIES if client != upstream]


@pytest.mark.parametrize(("client", "upstream"), CROSS)
def test_T40_empty_blocks_and_messages_are_removed(client: str, upstream: str) -> None:
    body, made = translated(client, upstream, BODIES[client])
    assert empties(body) == []
    assert "go" in json.dumps(body)
    assert not made.losses  # nothing is lost with nothing


def test_a_message_of_white_space_is_removed_for_messages_and_reported() -> None:
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": " \n"},
    ]
    messages.append({"role": "user", "content": "on"})
    body, made = translated("chat", "messages", {"model": "m", "messages": messages})
    assert empties(body) == []
    assert [(row.code, row.path) for row in made.losses.rows] == [(LossCode.BLANK_CUT, "messages[2]")]


@pytest.mark.parametrize(("text", "sent"), [("Sure, \n\t", "Sure,"), ("Sure", "Sure")])
def test_a_text_to_be_continued_has_no_white_space_at_its_end(text: str, sent: str) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": text}]
    body, made = translated("chat", "messages", {"model": "m", "messages": messages}, prefill="pass")
    assert body["messages"][-1] == {"role": "assistant", "content": sent}
    assert (LossCode.BLANK_CUT in made.losses.counts) is (text != sent)
