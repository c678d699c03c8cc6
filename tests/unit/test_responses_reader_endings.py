"""What the end of a response tells: when it was done, and the finer codes of its errors that agents know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Failure, FailureKind, direction
from dragoman.protocols.chat.failure import error_object
from dragoman.protocols.responses.failure import response_error
from peers.wire import DONE, ROLE, chat_reply, chunk
from support.directions import translated


@pytest.mark.parametrize(("finish", "status"), [("stop", "completed"), ("length", "incomplete")])
def test_a_completed_response_tells_when_if_there_is_a_clock(finish: str, status: str) -> None:
    for clock, told in ((None, None), (lambda: 1_790_000_007.9, 1_790_000_007)):
        expected = told if status == "completed" else None
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


@pytest.mark.parametrize(
    ("kind", "code", "whole", "streamed"),
    [
        (FailureKind.BILLING, "credit_balance_exhausted", "credit_balance_exhausted", "insufficient_quota"),
        (FailureKind.BILLING, "usage_not_included", "usage_not_included", "usage_not_included"),
        (FailureKind.BILLING, "billing_error", "insufficient_quota", "insufficient_quota"),
        (FailureKind.BILLING, None, "insufficient_quota", "insufficient_quota"),
        (FailureKind.OVERLOADED, "slow_down", "slow_down", "slow_down"),
        (FailureKind.POLICY, "cyber_policy", "cyber_policy", "cyber_policy"),
        (FailureKind.API, "slow_down", "slow_down", "server_error"),
    ],
)
def test_codes_that_agents_know_stay_between_the_openai_dialects(
    kind: FailureKind, code: str | None, whole: str, streamed: str
) -> None:
    failure = Failure(kind, "no", 429, code=code)
    assert error_object(failure)["code"] == whole
    assert response_error(failure)["code"] == streamed
