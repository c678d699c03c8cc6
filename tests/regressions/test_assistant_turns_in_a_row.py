"""Messages merges assistant messages in a row. In Chat the results of all their calls must follow one message.

Reported by recorded traffic: an agent adds a call of its own, with its result, behind the model's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import LossCode, direction
from oracles.requests import check
from support.directions import translated

HEADERS = {"anthropic-version": "2023-06-01"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {"of": name}}


def _result(name: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": f"42 {name}"}


TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in "abc"]
TURNS: dict[str, list[list[dict[str, Any]]]] = {
    "calls": [[_call("a")], [_call("b")]],
    "texts": [[_text("One."), _call("a")], [_text("Two."), _call("b")]],
    "three": [[_call("a")], [_text("Two.")], [_call("b"), _call("c")]],
    "text last": [[_text("One."), _call("a")], [_text("Two.")]],
}


@pytest.mark.parametrize("upstream", ["chat", "responses"])
@pytest.mark.parametrize("turns", TURNS.values(), ids=TURNS)
def test_the_results_follow_all_the_calls(turns: list[list[dict[str, Any]]], upstream: str) -> None:
    blocks = [block for turn in turns for block in turn]
    names = [block["name"] for block in blocks if block["type"] == "tool_use"]
    messages = [
        {"role": "user", "content": "Go"},
        *({"role": "assistant", "content": turn} for turn in turns),
        {"role": "user", "content": [*map(_result, names), _text("And?")]},
    ]
    body = {"model": "m", "max_tokens": 64, "messages": messages, "tools": TOOLS}
    translation = translated(direction("messages", upstream), body)
    sent = check(upstream, json.loads(translation.body), HEADERS)
    noted = json.dumps(sent)
    assert all(block["text"] in noted for block in blocks if block["type"] == "text")
    if upstream == "chat":
        assert [message["role"] for message in sent["messages"]] == [
            "user",
            "assistant",
            *["tool"] * len(names),
            "user",
        ]
        called = sent["messages"][1]["tool_calls"]
        assert [(call["id"], json.loads(call["function"]["arguments"])["of"]) for call in called] == [
            (f"toolu_{name}", name) for name in names
        ]
        assert translation.losses.counts[LossCode.TURNS_MERGED] == len(turns) - 1


def test_turns_whose_calls_have_their_results_stay_apart() -> None:
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [_call("a")]},
        {"role": "user", "content": [_result("a")]},
        {"role": "assistant", "content": [_text("One.")]},
        {"role": "assistant", "content": [_text("Two.")]},
        {"role": "user", "content": "And?"},
    ]
    body = {"model": "m", "max_tokens": 64, "messages": messages, "tools": TOOLS}
    translation = translated(direction("messages", "chat"), body)
    roles = [message["role"] for message in json.loads(translation.body)["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "assistant", "user"]
    assert LossCode.TURNS_MERGED not in translation.losses.counts
