"""The simulated Gemini rejects what Google documents, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from oracles.gemini import SKIP, Gemini, call_signature, text_signature

Json = dict[str, Any]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
USER: Json = {"role": "user", "content": "x"}


def call(call_id: str, signature: str | None = None) -> Json:
    made: Json = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    if signature is not None:
        made["extra_content"] = {"google": {"thought_signature": signature}}
    return made


def step(*calls: Json, **extra: Any) -> list[Json]:
    results = [{"role": "tool", "tool_call_id": made["id"], "content": "y"} for made in calls]
    return [{"role": "assistant", "content": None, "tool_calls": list(calls), **extra}, *results]


OWN = call_signature(call("a"))


def status(messages: list[Json]) -> int:
    return Gemini().answer({"model": "sim-text", "messages": messages, "tools": TOOLS})[0]


@pytest.mark.parametrize(
    "messages",
    [
        [USER, *step(call("a", OWN))],
        [USER, *step(call("a", OWN), call("b"))],
        [USER, *step(call("a", SKIP))],
        [USER, *step(call("a")), USER],
        [USER, {"role": "assistant", "content": "Hm"}, USER],
        [
            USER,
            {"role": "assistant", "content": "Hm", "extra_content": {"g": {"thought_signature": text_signature("Hm")}}},
            USER,
        ],
    ],
)
def test_a_sound_history_is_accepted(messages: list[Json]) -> None:
    assert status(messages) == 200


@pytest.mark.parametrize(
    "messages",
    [
        [USER, *step(call("a"))],
        [USER, *step(call("a"), call("b", call_signature(call("b"))))],
        [USER, *step(call("b", OWN))],
        [USER, *step(call("a", OWN)), *step(call("b"))],
        [USER, *step(call("a", "other")), USER],
        [USER, *step(call("a", OWN), reasoning_content="Hm")],
        [USER, {"role": "assistant", "content": "Hm", "extra_content": {"g": {"thought_signature": "S"}}}, USER],
    ],
)
def test_an_unsigned_or_foreign_call_is_rejected(messages: list[Json]) -> None:
    assert status(messages) == 400
