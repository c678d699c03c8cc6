"""One request: its end completes the receipt, and calls everything that waits for it, once and in order."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from dragoman import Dialect, Failure, direction, translate
from dragoman.errors import FailureKind
from dragoman_server.proxy.auth import Caller
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from support.scopes import scope_of, services

CHAT, MESSAGES, *_ = Dialect
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
FAILURE = Failure(FailureKind.API, "no", 500)


def translated() -> RequestScope:
    translation = translate(direction(CHAT, MESSAGES), json.dumps(BODY).encode())
    return scope_of(Receipt("req_1", CHAT, 7, provider="up", translation=translation))


def test_endings_are_called_once_in_their_order_with_the_translation() -> None:
    scope, seen = translated(), list[Any]()
    scope.at_end(lambda receipt, failure: seen.append(("first", receipt.translation, failure)))
    scope.at_end(lambda receipt, failure: seen.append(("second", receipt.translation, failure)))
    translation = scope.translation
    scope.end("failed", 500, FAILURE)
    scope.end("completed", 200)
    assert seen == [("first", translation, FAILURE), ("second", translation, FAILURE)]
    assert (scope.receipt.ended, scope.receipt.status, scope.receipt.translation) == ("failed", 500, None)
    assert scope.receipt.facts is not None


def test_an_ending_that_fails_keeps_no_other_from_its_call(caplog: pytest.LogCaptureFixture) -> None:
    scope, seen = translated(), list[str]()

    def broken(receipt: Receipt, failure: Failure | None) -> None:
        raise ValueError("a defect")

    scope.at_end(broken)
    scope.at_end(lambda receipt, _: seen.append(receipt.ended))
    scope.end("completed", 200)
    assert seen == ["completed"]
    assert "req_1 the end of the request failed by a defect" in caplog.text
    assert scope.receipt.translation is None


def test_a_request_that_has_begun_is_counted_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    metrics = services().instruments.metrics
    before = metrics.open_requests
    scope = RequestScope.begin(services(), make_mocked_request("POST", "/v1/messages"), MESSAGES)
    assert metrics.open_requests == before + 1
    assert scope.seconds() > 0
    scope.begun()
    assert scope.receipt.begun_at is not None
    scope.end("abandoned", 499)
    assert metrics.open_requests == before
    assert scope.receipt.duration > 0


def test_a_request_aside_is_not_counted() -> None:
    scope = scope_of(Receipt("req_1", CHAT, 7))
    scope.begun()
    assert scope.seconds() == 0.0
    assert scope.receipt.begun_at is None


def test_the_client_is_in_the_receipt() -> None:
    scope = scope_of(Receipt("req_1", CHAT, 7))
    scope.admitted(Caller(b"o" * 32))
    assert (scope.receipt.owner, scope.receipt.key) == (b"o" * 32, None)
    assert repr(scope) == "<RequestScope <Receipt req_1 chat open> 0 endings>"
