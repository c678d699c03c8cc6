"""The end of a response: its completion time, and the codes of its errors that agents know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from regressions.wire import DONE, ROLE, chat_reply, chunk
from support.directions import translated


@pytest.mark.parametrize(("finish", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_a_completed_response_has_its_time_if_there_is_a_clock(finish: str, status: str) -> None:
    for clock, seconds in ((None, None), (lambda: 1_790_000_007.9, 1_790_000_007)):
        expected = seconds if status == "completed" else None
        translation = translated(direction("responses", "chat"))
        translation.context.clock = clock
        got: dict[str, Any] = json.loads(translation.reply(json.dumps(chat_reply(finish, content="Hi")).encode()))
        assert got["completed_at"] == expected
        streaming = translated(direction("responses", "chat"))
        streaming.context.clock = clock
        out = streaming.stream_machine().feed(ROLE + chunk({"content": "Hi"}) + chunk({}, finish) + DONE)
        last = json.loads(out.rsplit(b"data: ", 1)[1])["response"]
        assert last["status"] == status
        assert last["completed_at"] == expected
