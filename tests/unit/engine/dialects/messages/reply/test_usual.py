"""Complete messages that clients read as they were meant, and others."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.messages.reply.usual import is_usual
from dragoman.reply_context import ReplyContext

USE: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}


def message(*blocks: Any, **more: Any) -> dict[str, Any]:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    return {**head, "content": list(blocks), "usage": {"input_tokens": 1, "output_tokens": 1}, **more}


@pytest.mark.parametrize(
    "reply",
    [
        message(),
        message({"type": "text", "text": ""}, USE, {"type": "odd"}),
        message({"type": "thinking", "thinking": ""}),
    ],
)
def test_a_usual_reply(reply: dict[str, Any]) -> None:
    assert is_usual(reply, ReplyContext("m"))


@pytest.mark.parametrize(
    "reply",
    [
        message(content="Hi"),
        message(usage=None),
        message(usage={"input_tokens": 1}),
        message(role=None),
        message(None),
        message({"type": "text", "text": None}),
        message({"type": "thinking", "thinking": "", "signature": None}),
        message(USE, USE),
        message(USE | {"input": "{}"}),
    ],
)
def test_a_reply_that_clients_would_misread(reply: dict[str, Any]) -> None:
    assert not is_usual(reply, ReplyContext("m"))
