"""Failures as objects of the OpenAI dialects."""

import httpx2
import openai
import orjson
import pytest

from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.openai.error_envelope import write_failure
from dragoman.errors import (
    ClientRequestError,
    Failure,
    FailureKind,
    LimitExceeded,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamUnreachable,
)

K = FailureKind


@pytest.mark.parametrize(
    ("failure", "status", "type", "code"),
    [
        (ClientRequestError(("n",), "must be 1").failure, 400, "invalid_request_error", None),
        (LimitExceeded("request_body", 9, upstream=False).failure, 413, "invalid_request_error", None),
        (LimitExceeded("sse_line", 9, upstream=True).failure, 502, "server_error", None),
        (UpstreamProtocolError("x").failure, 502, "server_error", "upstream_protocol"),
        (UpstreamUnreachable("x").failure, 502, "server_error", "upstream_unreachable"),
        (UpstreamTimeout("idle", 5).failure, 504, "server_error", "timeout"),
        (Failure(K.NOT_FOUND, "unknown model 'x'; known: a, b", 404), 404, "invalid_request_error", "model_not_found"),
        (Failure(K.OVERLOADED, "shutting down", 503), 503, "service_unavailable_error", "server_is_overloaded"),
    ],
)
def test_the_gateways_own_failures(failure: Failure, status: int, type: str, code: str | None) -> None:
    sent_status, body = write_failure(failure)
    assert (sent_status, body["error"]["type"], body["error"]["code"]) == (status, type, code)


@pytest.mark.parametrize(
    ("status", "type", "written"),
    [
        (400, "invalid_request_error", (400, "invalid_request_error", None)),
        (401, "authentication_error", (401, "invalid_request_error", "invalid_api_key")),
        (402, "billing_error", (402, "insufficient_quota", "insufficient_quota")),
        (403, "permission_error", (403, "permission_error", None)),
        (404, "not_found_error", (404, "invalid_request_error", "model_not_found")),
        (409, "conflict_error", (409, "invalid_request_error", None)),
        (413, "request_too_large", (413, "invalid_request_error", None)),
        (429, "rate_limit_error", (429, "rate_limit_error", "rate_limit_exceeded")),
        (500, "api_error", (500, "server_error", None)),
        (504, "timeout_error", (504, "server_error", None)),
        (529, "overloaded_error", (503, "service_unavailable_error", "server_is_overloaded")),
    ],
)
def test_messages_errors_for_chat_clients(status: int, type: str, written: tuple[int, str, str | None]) -> None:
    """mapping §10.1, row by row; in-band the same type implies the same status."""
    payload = {"type": "error", "error": {"type": type, "message": "model: claude-x"}, "request_id": "req_1"}
    for failure in (
        read_error_response(status, orjson.dumps(payload), {}, Dialect.MESSAGES),
        read_error_payload(payload, Dialect.MESSAGES),
    ):
        sent_status, body = write_failure(failure)
        assert failure.status == status
        assert (sent_status, body["error"]["type"], body["error"]["code"]) == written
        assert body["error"]["message"] == "model: claude-x"


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
    ],
)
def test_prompt_too_long_gets_its_code(message: str) -> None:
    payload = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    for failure in (
        read_error_response(400, orjson.dumps(payload), {}, Dialect.MESSAGES),
        read_error_payload(payload, Dialect.MESSAGES),
    ):
        status, body = write_failure(failure)
        assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
        assert body["error"]["message"] == message


CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
    504: openai.InternalServerError,
}


@pytest.mark.parametrize("kind", list(K))
def test_the_sdk_reads_every_kind(kind: FailureKind) -> None:
    client = openai.OpenAI(api_key="k", base_url="http://host/v1")
    status, body = write_failure(Failure(kind, "what happened", 0))
    response = httpx2.Response(
        status,
        content=orjson.dumps(body),
        headers={"x-request-id": "req_1"},
        request=httpx2.Request("POST", "http://host/v1/chat/completions"),
    )
    raised = client._make_status_error_from_response(response)
    assert type(raised) is CLASSES.get(status, openai.APIStatusError)
    assert (raised.type, raised.code) == (body["error"]["type"], body["error"]["code"])
    assert "what happened" in raised.message
    client.close()
