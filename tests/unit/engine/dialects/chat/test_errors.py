"""Error answers of Chat upstreams and what is sent to Chat clients (mapping §10)."""

import json
from functools import partial
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.chat.errors import write_error_frame
from dragoman.dialects.errors.read import read_error_response
from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.errors import (
    Failure,
    FailureKind,
    StreamTruncated,
    Unsupported,
)

K = FailureKind
read_failure = partial(read_error_response, dialect=Dialect.CHAT)


def answer(status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_failure(status, raw, headers or {})


def error(message: str = "m", type: str | None = None, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "written"),
    [
        (400, error(type="invalid_request_error"), K.INVALID_REQUEST, (400, "invalid_request_error", None)),
        (422, error(), K.INVALID_REQUEST, (422, "invalid_request_error", None)),
        (418, error(), K.INVALID_REQUEST, (418, "invalid_request_error", None)),
        (
            400,
            error(type="invalid_request_error", code="unsupported_parameter"),
            K.INVALID_REQUEST,
            (400, "invalid_request_error", "unsupported_parameter"),
        ),
        (
            401,
            error(type="authentication_error"),
            K.AUTHENTICATION,
            (401, "invalid_request_error", "invalid_api_key"),
        ),
        (402, error(), K.BILLING, (402, "insufficient_quota", "insufficient_quota")),
        (
            402,
            error("Insufficient Balance", type="unknown_error", code="invalid_request_error"),
            K.BILLING,
            (402, "insufficient_quota", "insufficient_quota"),
        ),
        (
            429,
            error(type="insufficient_quota", code="insufficient_quota"),
            K.BILLING,
            (429, "insufficient_quota", "insufficient_quota"),
        ),
        (
            429,
            error(type="insufficient_quota", code="credit_balance_exhausted"),
            K.BILLING,
            (429, "insufficient_quota", "credit_balance_exhausted"),
        ),
        (
            429,
            error(type="exceeded_current_quota_error"),
            K.BILLING,
            (429, "insufficient_quota", "insufficient_quota"),
        ),
        (403, error(type="permission_error"), K.PERMISSION, (403, "permission_error", None)),
        (403, error(code="content_filter"), K.POLICY, (403, "invalid_request_error", "content_filter")),
        (404, error("no such route"), K.NOT_FOUND, (404, "invalid_request_error", None)),
        (
            404,
            error("The model `x` does not exist", code="model_not_found"),
            K.NOT_FOUND,
            (404, "invalid_request_error", "model_not_found"),
        ),
        (404, error("model 'x' not found"), K.NOT_FOUND, (404, "invalid_request_error", "model_not_found")),
        (409, error(), K.CONFLICT, (409, "invalid_request_error", None)),
        (413, error(), K.TOO_LARGE, (413, "invalid_request_error", None)),
        (429, error(), K.RATE_LIMIT, (429, "rate_limit_error", "rate_limit_exceeded")),
        (
            429,
            error(
                "Request too large on tokens per min (TPM): Limit 30000, Requested 40000",
                type="tokens",
                code="rate_limit_exceeded",
            ),
            K.RATE_LIMIT,
            (429, "tokens", "rate_limit_exceeded"),
        ),
        (
            400,
            error(code="context_length_exceeded"),
            K.CONTEXT_LENGTH,
            (400, "invalid_request_error", "context_length_exceeded"),
        ),
        (
            500,
            error("request (5000 tokens) exceeds the available context size (4096 tokens)"),
            K.CONTEXT_LENGTH,
            (400, "invalid_request_error", "context_length_exceeded"),
        ),
        (400, error(code="invalid_prompt"), K.POLICY, (400, "invalid_request_error", "invalid_prompt")),
        (500, error(type="server_error"), K.API, (500, "server_error", None)),
        (502, error(), K.API, (502, "server_error", None)),
        (501, error(), K.API, (501, "server_error", None)),
        (
            503,
            error(code="slow_down"),
            K.OVERLOADED,
            (503, "service_unavailable_error", "slow_down"),
        ),
        (529, error(), K.OVERLOADED, (503, "service_unavailable_error", "server_is_overloaded")),
        (
            500,
            error(code="server_is_overloaded"),
            K.OVERLOADED,
            (503, "service_unavailable_error", "server_is_overloaded"),
        ),
        (408, error(), K.TIMEOUT, (408, "server_error", None)),
        (504, error(), K.TIMEOUT, (504, "server_error", None)),
        (524, b"<html><title>x | 524: A timeout occurred</title></html>", K.TIMEOUT, (504, "server_error", None)),
        # Under a 2xx (or a redirect) the status follows from the body, else it is 502.
        (200, error(), K.API, (502, "server_error", None)),
        (302, b"", K.API, (502, "server_error", None)),
        (200, error(code=429), K.RATE_LIMIT, (429, "rate_limit_error", "rate_limit_exceeded")),
        (200, error(code="404"), K.NOT_FOUND, (404, "invalid_request_error", None)),
        (200, error(type="server_error"), K.API, (500, "server_error", None)),
        (200, error(type="insufficient_quota"), K.BILLING, (429, "insufficient_quota", "insufficient_quota")),
        (200, error(type="engine_overloaded_error"), K.OVERLOADED, (503, "service_unavailable_error", None)),
    ],
)
def test_kinds_and_how_they_are_written(
    status: int, body: Any, kind: FailureKind, written: tuple[int, str, str | None]
) -> None:
    failure = answer(status, body)
    assert failure.kind is kind
    if status >= 400:
        assert failure.status == status
    sent_status, payload = write_failure(failure, "req_1")
    code = written[2] if written[2] or kind is not K.OVERLOADED else "server_is_overloaded"
    assert (sent_status, payload["error"]["type"], payload["error"]["code"]) == (written[0], written[1], code)
    assert list(payload) == ["error"]
    assert list(payload["error"]) == ["message", "type", "param", "code"]


def test_param_names_the_clients_field_or_nothing() -> None:
    """mapping §10: the upstream's `messages[3].content` is not a field of the client's body."""
    assert answer(400, error(param="messages[3].content") | {}).param is None
    body = error()
    body["error"]["param"] = "messages[3].content"
    assert answer(400, body).param is None
    body["error"]["param"] = "temperature"
    assert answer(400, body).param == "temperature"
    own = Unsupported(("messages", 3, "tool_calls", 0, "custom"), "no custom tools there").failure
    assert write_failure(own)[1]["error"]["param"] == "messages[3].tool_calls[0].custom"


def test_T22_T23_cut_streams_are_server_errors_and_not_bad_requests() -> None:
    frame = write_error_frame(StreamTruncated().failure)
    assert frame == {
        "error": {
            "message": "upstream stream ended before its terminal event",
            "type": "server_error",
            "param": None,
            "code": "stream_truncated",
        }
    }
