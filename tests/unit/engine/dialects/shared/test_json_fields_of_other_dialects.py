"""Fields of another dialect are left out and reported as such (mapping §13)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.losses import LossCode
from support.canonical_turns import translated

ANSWER = [{"role": "user", "content": "go"}]
MESSAGES = {"model": "m", "max_tokens": 99, "messages": ANSWER}
CHAT = {"model": "m", "messages": ANSWER}
RESPONSES = {"model": "m", "input": "go"}


def test_seed_S2_27_keys_of_openai_in_a_messages_request_are_left_out_with_a_warning() -> None:
    leaked: Any = {"instructions": "be brief", "input": [], "store": True, "parallel_tool_calls": True}
    body, made = translated("messages", "chat", {**MESSAGES, **leaked})
    assert leaked.keys().isdisjoint(body)
    assert made.losses.counts == {LossCode.LEAKED_FIELD: 4}
    noted = {row.path: row.done for row in made.losses.rows}
    assert noted["instructions"] == "a field of responses; dropped"
    assert noted["store"] == "a field of chat and responses; dropped"


@pytest.mark.parametrize(
    ("client", "upstream", "body", "field", "owner"),
    [
        ("chat", "messages", CHAT, {"system": "be brief"}, "messages"),
        ("chat", "messages", CHAT, {"stop_sequences": ["x"]}, "messages"),
        ("chat", "responses", CHAT, {"max_output_tokens": 9}, "responses"),
        ("chat", "responses", CHAT, {"mcp_servers": ["x"]}, "messages"),
        ("messages", "responses", MESSAGES, {"previous_response_id": "resp_1"}, "responses"),
        ("messages", "chat", MESSAGES, {"n": 2}, "chat"),
        ("responses", "chat", RESPONSES, {"response_format": {"type": "text"}}, "chat"),
        ("responses", "messages", RESPONSES, {"max_tokens": 9}, "chat and messages"),
    ],
)
def test_a_leaked_field_is_reported_with_its_dialect(
    client: str, upstream: str, body: Any, field: Any, owner: str
) -> None:
    sent, made = translated(client, upstream, {**body, **field})
    (name,) = field
    rows = [(row.path, row.done) for row in made.losses.rows if row.code is LossCode.LEAKED_FIELD]
    assert rows == [(name, f"a field of {owner}; dropped")]
    assert sent == translated(client, upstream, body)[0]


def test_a_field_that_no_one_has_is_just_unknown() -> None:
    _, made = translated("chat", "messages", {**CHAT, "enable_thinking": True})
    assert made.losses.counts == {LossCode.UNKNOWN_FIELD: 1}


def test_within_an_object_a_field_is_just_unknown() -> None:
    _, made = translated("messages", "chat", {**MESSAGES, "metadata": {"input": "x"}})
    assert [(row.code, row.path) for row in made.losses.rows] == [(LossCode.UNKNOWN_FIELD, "metadata.input")]
