"""Requests without an upstream's reply: the client's error, the log line and the receipt."""

from __future__ import annotations

import json
import logging

import pytest

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.errors import (
    ClientRequestError,
    DragomanError,
    Failure,
    FailureKind,
    FailureOrigin,
    UpstreamUnreachable,
)
from dragoman_server.proxy.request_failure import answer_failure, end_abandoned
from dragoman_server.receipt import Receipt
from support.scopes import scope_of

CHAT, MESSAGES, RESPONSES, *_ = Dialect
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def translated() -> Receipt:
    translation = translate(direction(CHAT, MESSAGES), json.dumps(BODY).encode())
    return Receipt("req_1", CHAT, 7, b"o" * 32, "m", "another", translation)


def message_of(body: object) -> str:
    assert isinstance(body, bytes)
    text = json.loads(body)["error"]["message"]
    assert isinstance(text, str)
    return text


async def test_an_error_before_the_translation_is_a_rejection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    receipt = Receipt("req_1", MESSAGES, 7)
    response = await answer_failure(scope_of(receipt), ClientRequestError(("model",), "is required"))
    assert response.status == 400
    assert "model" in message_of(response.body)
    assert (receipt.ended, receipt.status) == ("rejected", 400)
    assert "messages rejected" in caplog.text


async def test_an_error_after_it_is_a_failure_of_the_upstream(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    receipt = translated()
    error = UpstreamUnreachable("the upstream connection failed")
    response = await answer_failure(scope_of(receipt), error)
    assert response.status == error.failure.status == 502
    assert (receipt.ended, receipt.status) == ("failed", 502)
    assert "chat→messages m → m failed" in caplog.text


@pytest.mark.parametrize(
    ("origin", "reason", "ended"),
    [
        (FailureOrigin.CLIENT, "requests", "rejected"),
        (FailureOrigin.CLIENT, None, "rejected"),
        (FailureOrigin.PROXY, "store", "rejected"),
        (FailureOrigin.PROXY, "stopping", "failed"),
        (FailureOrigin.PROXY, "given_up", "failed"),
        (FailureOrigin.UPSTREAM, None, "failed"),
    ],
)
async def test_the_origin_of_a_failure_decides(
    origin: FailureOrigin, reason: str | None, ended: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    receipt = translated()
    failure = Failure(FailureKind.PERMISSION, "the message", 403, origin=origin, reason=reason)
    await answer_failure(scope_of(receipt), DragomanError(failure))
    assert receipt.ended == ended
    assert ("the message" in caplog.text) == ("the message" in str(receipt.error)) == (origin != "upstream")
    assert [record.levelno for record in caplog.records] == [logging.INFO]


async def test_a_defect_is_logged_and_not_shown_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    receipt = translated()
    try:
        raise ValueError("a private detail")
    except ValueError as error:
        response = await answer_failure(scope_of(receipt), error)
    assert response.status == 500
    assert "private" not in message_of(response.body)
    assert "a private detail" in caplog.text
    assert receipt.ended == "failed"


@pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
def test_a_client_that_left_is_in_the_receipt_and_in_the_log_where_that_is_on(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level, "dragoman")
    receipt = translated()
    end_abandoned(scope_of(receipt))
    assert (receipt.ended, receipt.status) == ("abandoned", 499)
    assert ("abandoned before the reply" in caplog.text) is (level == logging.INFO)
