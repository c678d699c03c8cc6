"""Errors about a key of the caller's own: what the client gets in their place, and what stays as it is."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from dragoman import Translation, direction, translate
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.errors.own_key import for_client
from dragoman.dialects.errors.read import read_error_response
from dragoman.errors import DragomanError, Failure, FailureKind, FailureOrigin
from dragoman.gateway import ReplyOptions, forward
from support.samples import request

REFUSED = Failure(FailureKind.AUTHENTICATION, "Incorrect API key provided: sk-1234", 401, request_id="req_up")
MISLEADING = re.compile(r"api.?key|log.?in|sk-1234|401 unauthorized", re.IGNORECASE)


def test_the_client_gets_no_error_about_a_key() -> None:
    shown = for_client(REFUSED, "up")
    assert (shown.kind, shown.status, shown.code, shown.request_id) == (FailureKind.API, 502, shown.code, "req_up")
    assert shown.headers == {"x-should-retry": "false"}
    assert "the provider up refused" in shown.message
    assert not MISLEADING.search(shown.message)
    assert REFUSED.status == 401


def test_a_permission_keeps_its_reason_unless_that_is_about_keys() -> None:
    region = Failure(FailureKind.PERMISSION, "your country is not served", 403)
    assert for_client(region, "up").message.endswith(": your country is not served")
    for words in ("Invalid API Key", "bad token", "please log in", "not authorized"):
        assert words not in for_client(replace(region, message=words), "up").message


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind not in ("authentication", "permission")])
def test_other_failures_stay(kind: FailureKind) -> None:
    failure = Failure(kind, "words", 400)
    assert for_client(failure, "up") is failure


def test_the_clients_own_key_and_the_gateways_refusals_stay() -> None:
    assert for_client(REFUSED, "") is REFUSED
    own = replace(REFUSED, origin=FailureOrigin.CLIENT)
    assert for_client(own, "up") is own


def test_google_reports_a_wrong_key_as_a_400() -> None:
    error = {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}],
    }
    failure = read_error_response(400, json.dumps([{"error": error}]).encode(), {}, Dialect.CHAT)
    assert (failure.kind, failure.status, failure.code) == (FailureKind.AUTHENTICATION, 401, "API_KEY_INVALID")
    error["details"] = [{"reason": "SOMETHING_ELSE"}, 7]
    failure = read_error_response(400, json.dumps({"error": error}).encode(), {}, Dialect.CHAT)
    assert (failure.kind, failure.status, failure.code) == (FailureKind.INVALID_REQUEST, 400, None)


# --- every form of reply ----------------------------------------------------------------------------------------------

EACH = pytest.mark.parametrize(("client", "upstream"), list(product(CLIENT_DIALECTS, Dialect)), ids=str)


ERROR: Any = {
    "type": "error",
    "error": {"type": "authentication_error", "message": REFUSED.message, "code": "invalid_api_key"},
}


def translated(client: Dialect, upstream: Dialect, *, stream: bool, own_key: str = "up") -> Translation:
    body = json.dumps(request(client, model="m", stream=stream)).encode()
    return translate(direction(client, upstream), body, options=ReplyOptions(request_id="req_1", own_key=own_key))


def check(body: bytes) -> None:
    assert b"the provider up refused" in body
    assert not MISLEADING.search(body.decode())


@EACH
def test_an_error_status(client: Dialect, upstream: Dialect) -> None:
    for status in (401, 403):
        made = translated(client, upstream, stream=False)
        response = made.error(status, json.dumps(ERROR).encode(), {"retry-after": "7"})
        assert (response.status, response.headers["x-should-retry"]) == (502, "false")
        assert response.failure.status == status
        assert made.context.failure is response.failure
        check(response.body)
        theirs = translated(client, upstream, stream=False, own_key="")
        assert theirs.error(status, b"{}", {}).status == status


@EACH
def test_an_error_with_status_200(client: Dialect, upstream: Dialect) -> None:
    body = json.dumps(ERROR).encode()
    for stream in (False, True):
        made = translated(client, upstream, stream=stream)
        with pytest.raises(DragomanError) as raised:
            (made.replay if stream else made.reply)(body)
        response = made.error_of(raised.value.failure)
        assert (response.status, response.failure.kind) == (502, FailureKind.AUTHENTICATION)
        check(response.body)
        check(made.error_stream(response.failure))


@EACH
def test_an_error_in_a_stream(client: Dialect, upstream: Dialect) -> None:
    made = translated(client, upstream, stream=True)
    machine = made.stream_machine()
    event = b"event: error\n" if upstream in (Dialect.MESSAGES, Dialect.RESPONSES) else b""
    payload = ERROR
    if upstream is Dialect.RESPONSES:
        payload = {**ERROR["error"], "type": "error", "sequence_number": 0, "param": None}
    out = machine.feed(event + b"data: " + json.dumps(payload).encode() + b"\n\n") + machine.finish()
    check(out)
    assert made.context.failure is not None
    assert made.context.failure.kind is FailureKind.AUTHENTICATION


def test_a_forwarded_endpoint() -> None:
    made = forward(b'{"model":"m"}', {"model": "m"}, model="m", upstream_model="m", options=ReplyOptions(own_key="up"))
    body = json.dumps(ERROR).encode()
    check(made.error(401, body, {}).body)
    with pytest.raises(DragomanError) as raised:
        made.forwarded_reply(body)
    check(made.error_of(raised.value.failure).body)
