"""Complete Chat replies that clients read as they were meant, and others."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.chat.reply.usual import is_usual
from dragoman.reply_context import ReplyContext

CALL: dict[str, Any] = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def body(finish: Any = "stop", **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"} | message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize(
    "reply",
    [body(), body(content=None), body(tool_calls=[CALL]), body("length", tool_calls=[CALL | {"type": "custom"}])],
)
def test_a_usual_reply(reply: dict[str, Any]) -> None:
    assert is_usual(reply, ReplyContext("m"))


@pytest.mark.parametrize(
    "reply",
    [
        body() | {"id": None},
        body() | {"created": 1.5},
        body() | {"choices": []},
        body(None),
        body(content=["Hi"]),
        body(role=None),
        body(finish_reason="stop"),
        body(tool_calls=CALL),
        body(tool_calls=[CALL, CALL]),
        body(tool_calls=[None, CALL]),
        body(tool_calls=[CALL | {"function": {"name": "f", "arguments": "{"}}]),
    ],
)
def test_a_reply_that_clients_would_misread(reply: dict[str, Any]) -> None:
    assert not is_usual(reply, ReplyContext("m"))
