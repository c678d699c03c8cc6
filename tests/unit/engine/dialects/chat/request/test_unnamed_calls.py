"""Calls of the history without an id or a name, and results that name no call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.chat.request.unnamed_calls import UnnamedCalls
from dragoman.losses import Losses

CALL: dict[str, Any] = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
USER: dict[str, Any] = {"role": "user", "content": "Hi"}


def stated(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(**fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "seen", **fields}


def completed(messages: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the messages as the reader completes them, and the rows."""
    losses = Losses()
    calls = UnnamedCalls(messages, losses)
    steps = {"assistant": calls.complete, "tool": calls.result}
    written = [
        message if message.get("tool_call_id") or message["role"] not in steps else steps[message["role"]](message, n)
        for n, message in enumerate(messages)
    ]
    return written, [str(row) for row in losses]


def test_complete_calls_are_not_copied() -> None:
    messages = [USER, stated(CALL, "odd", {"id": 3}), result(tool_call_id="call_a")]
    written, rows = completed(messages)
    assert all(a is b for a, b in zip(written, messages, strict=True))
    assert rows == []


@pytest.mark.parametrize("call_id", ["", None, "missing"])
def test_a_call_and_its_result_get_one_id(call_id: str | None) -> None:
    call = {**CALL, "id": call_id}
    if call_id == "missing":
        del call["id"]
    (_, sent, answer), rows = completed([USER, stated(call), result()])
    assert sent["tool_calls"] == [{**CALL, "id": "call_1_0"}]
    assert answer["tool_call_id"] == "call_1_0"
    assert len(rows) == 2


def test_a_call_without_a_name_gets_one() -> None:
    (_, sent), _ = completed([USER, stated({**CALL, "function": {"name": "", "arguments": "{}"}})])
    assert sent["tool_calls"][0]["function"] == {"name": "unnamed_tool", "arguments": "{}"}


def test_results_get_the_ids_that_no_other_result_names() -> None:
    second, third = {**CALL, "id": "call_b"}, {**CALL, "id": "call_c"}
    messages = [USER, stated(CALL, second, third), result(), result(tool_call_id="call_b"), result(), result()]
    written, _ = completed(messages)
    assert [message.get("tool_call_id") for message in written[2:]] == ["call_a", "call_b", "call_c", "call_of_5"]


def test_the_messages_of_the_client_are_only_read() -> None:
    messages = [USER, stated({**CALL, "id": ""}), result()]
    before = json.dumps(messages)
    completed(messages)
    assert json.dumps(messages) == before
