"""Error answers of Chat upstreams and what is sent to Chat clients (mapping §10)."""

import json
from functools import partial
from typing import Any

import httpx2
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman.dialects.chat.errors import is_error_frame, write_error_frame
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.errors.redact import MESSAGE_MAX
from dragoman.dialects.openai.error_envelope import error_object, write_failure
from dragoman.errors import (
    ClientRequestError,
    Failure,
    FailureKind,
    LimitExceeded,
    StreamTruncated,
    Unsupported,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamUnreachable,
)

K = FailureKind
read_failure = partial(read_error_response, dialect=Dialect.CHAT)
read_error_frame = partial(read_error_payload, dialect=Dialect.CHAT)


def read_error_object(error: Any) -> Failure:
    """The failure in a response whose `error` is given."""
    return read_error_payload({"error": error} if error else {}, Dialect.RESPONSES)


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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (error("plain"), "plain"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": {"error": {"message": "deep"}}}, "deep"),
        (
            {"detail": [{"loc": ["body", "messages", 0], "msg": "field required", "type": "missing"}]},
            "body.messages.0: field required",
        ),
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ({"error": "invalid_client", "error_description": "who are you"}, "who are you"),
        ({"error": True, "message": "flagged"}, "flagged"),
        ({"error": {}, "message": "outside"}, "outside"),
        ({"error_type": "InternalError", "error_message": "boom"}, "boom"),
        (
            {"object": "error", "message": "vLLM says", "type": "BadRequestError", "param": None, "code": 400},
            "vLLM says",
        ),
        ([{"error": {"code": 400, "message": "in a list", "status": "INVALID_ARGUMENT"}}], "in a list"),
        ({"errors": [{"code": 7003, "message": "cloud"}], "success": False}, "cloud"),
        ({"message": {"detail": [{"loc": ["body"], "msg": "bad"}]}, "object": "error"}, "body: bad"),
        ({"message": "no Route matched"}, "no Route matched"),
        ({"__type": "ThrottlingException", "message": "slow"}, "slow"),
        (b"<!DOCTYPE html><html><head><title>502 Bad\n Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (b"<html><body><h1>Nope</h1><p>x</p></body></html>", "Nope"),
        (b"<html><p>just   text</p></html>", "just text"),
        (b"upstream connect error", "upstream connect error"),
        (b'data: {"error":{"message":"framed"}}\n\n', "framed"),
        (b'event: error\r\ndata: {"error":{"message":"framed"}}\r\n\r\n', "framed"),
        (b'"only a string"', "only a string"),
        (b"", "upstream answered status 500 without a message"),
        (b"null", "null"),
        (b"\x1f\x8b\x08\x00\xff\xfe\xfd\xfc", "upstream answered status 500 without a message"),
        ({"error": {"code": "weird_code"}}, "upstream answered status 500 without a message (weird_code)"),
        (b'{"error": {"message": "cut', '{"error": {"message": "cut'),
        (b"[" * 5000, "["),
    ],
)
def test_the_message_is_found_in_odd_shapes(body: Any, message: str) -> None:
    assert answer(500, body).message[: len(message)] == message


@pytest.mark.parametrize(
    "raw",
    [
        '{"type":"error","error":{"type":"rate_limit_error","message":"Number of requests too high"}}',
        {"error": {"type": "rate_limit_error", "message": "Number of requests too high"}},
        "Number of requests too high",
        '[{"error":{"message":"Number of requests too high"}}]',
    ],
)
def test_nested_errors_of_routers_are_unpacked_one_level(raw: Any) -> None:
    body = error("Provider returned error", code=429, metadata={"raw": raw, "provider_name": "P"})
    failure = answer(200, body)
    assert failure.message == "Number of requests too high"
    assert (failure.kind, failure.status, failure.code) == (K.RATE_LIMIT, 429, None)


def test_only_one_level_is_unpacked() -> None:
    innermost = json.dumps(error("third"))
    inner = json.dumps(error("second", metadata={"raw": innermost}))
    assert answer(502, error("first", metadata={"raw": inner})).message == "second"


def test_a_router_status_in_the_body_does_not_beat_the_http_status() -> None:
    assert answer(503, error(code=400)).kind is K.OVERLOADED


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


def test_T78_retry_and_rate_limit_headers_are_kept() -> None:
    failure = answer(
        429,
        error(),
        {
            "Retry-After": "7",
            "retry-after-ms": "6500",
            "X-Should-Retry": "true",
            "x-ratelimit-reset-tokens": "6m0s",
            "Set-Cookie": "a=b",
            "content-length": "3",
            "x-request-id": "req_abc",
        },
    )
    assert failure.headers == {
        "retry-after": "7",
        "retry-after-ms": "6500",
        "x-should-retry": "true",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert failure.request_id == "req_abc"


def test_request_id_of_the_body_and_unfit_ones() -> None:
    assert answer(500, {**error(), "request_id": "r1"}, {"x-request-id": "r2"}).request_id == "r1"
    assert answer(500, error(), {"x-request-id": "bad id"}).request_id is None
    assert answer(500, {**error(), "request_id": "a\r\nset-cookie: x"}).request_id is None


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Incorrect API key provided: sk-proj-abcdefghijkl1234. Find it", "abcdefghijkl1234"),
        ("Incorrect API key provided: sk-ab***********wxyz.", "wxyz"),
        ("Incorrect API key provided: my-own-secret. Find it", "my-own-secret"),
        ("bad header Authorization: Bearer abc123def456", "abc123def456"),
        ('{"authorization":"Basic dXNlcjpwYXNzd29yZA=="}', "dXNlcjpwYXNzd29yZA"),
        ("x-api-key: 0123456789abcdef is unknown", "0123456789abcdef"),
        ("GET https://host/v1?key=AIzaSyA1234567890abcdefghijk&x=1 failed", "SyA1234567890"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl refused", "eyJzdWIiOiIxIn0"),
        ("key gsk_abcdefghijklmnop invalid", "abcdefghijklmnop"),
        ("sk-ant-api03-AAAA_bbbb-cccc invalid", "AAAA_bbbb"),
    ],
)
def test_secrets_in_messages_are_masked(text: str, secret: str) -> None:
    for failure in (answer(401, error(text)), answer(401, text.encode()), read_error_frame(error(text))):
        assert secret not in failure.message
        assert "***" in failure.message


@pytest.mark.parametrize(
    "text",
    [
        "Bearer token is missing",
        "You didn't provide an API key. Pass it as Authorization: Bearer YOUR_KEY",
        "the risk-management task-scheduler failed",
        "Rate limit reached for gpt-6 in organization org-abc on tokens per min. Please try again in 6s.",
        "messages: at least one message is required — überall",
    ],
)
def test_ordinary_words_are_not_masked(text: str) -> None:
    assert answer(401, error(text)).message == text


def test_long_messages_are_cut() -> None:
    for body in (error("x" * 1_000_000), b"y" * 1_000_000):
        message = answer(500, body).message
        assert len(message) == MESSAGE_MAX
        assert message.endswith("…")


@pytest.mark.parametrize(
    ("frame", "kind", "status", "message"),
    [
        (
            error("The server is overloaded", "service_unavailable_error", "server_is_overloaded"),
            K.OVERLOADED,
            503,
            "The server is overloaded",
        ),
        (error("x", "rate_limit_error"), K.RATE_LIMIT, 429, "x"),
        (error("x", "InternalServerError", 500), K.API, 500, "x"),
        (
            error("Provider disconnected", code=502) | {"id": "gen-1", "choices": []},
            K.API,
            502,
            "Provider disconnected",
        ),
        ({"error": "text"}, K.API, 502, "text"),
        ({"error_type": "timeout", "error_message": "slow"}, K.TIMEOUT, 504, "slow"),
        ({"detail": "gone"}, K.API, 502, "gone"),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, K.INVALID_REQUEST, 400, "bad"),
        ({"error": {"message": "maximum context length is 8 tokens"}}, K.CONTEXT_LENGTH, 400, "maximum context length"),
        ({"error": 1}, K.API, 502, "upstream reported an error without a message"),
    ],
)
def test_error_frames(frame: dict[str, Any], kind: FailureKind, status: int, message: str) -> None:
    assert is_error_frame(frame)
    failure = read_error_frame(frame)
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.message.startswith(message)


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": []},
        {"choices": [], "error": None},
        {"id": "x", "choices": [{"delta": {}}], "detail": "fine"},
        {"prompt_filter_results": [], "error": {}},
        {},
    ],
)
def test_ordinary_chunks_are_no_errors(chunk: dict[str, Any]) -> None:
    assert not is_error_frame(chunk)


def test_responses_error_objects() -> None:
    failure = read_error_object({"code": "server_is_overloaded", "message": "later"})
    assert (failure.kind, failure.message) == (K.OVERLOADED, "later")
    flat = read_error_object({"type": "error", "code": "context_length_exceeded", "message": "too much", "param": None})
    assert (flat.kind, flat.native_type) == (K.CONTEXT_LENGTH, None)
    nested = read_error_object({"code": "rate_limit_exceeded", "message": "m", "headers": {"Retry-After": 3}})
    assert nested.headers == {"retry-after": "3"}
    assert read_error_object(None).kind is K.API
    assert error_object(failure)["code"] == "server_is_overloaded"


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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "errors", "detail", "message", "type", "code", "metadata", "raw", "status", "loc"]
            )
            | st.text(max_size=8),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.integers(100, 599), st.binary(max_size=200) | JSON.map(orjson.dumps))
def test_reading_never_raises(status: int, body: bytes) -> None:
    failure = read_failure(status, body, {})
    assert failure.message
    assert failure.status >= 400
    sent_status, written = write_failure(failure)
    assert 400 <= sent_status <= 599
    assert orjson.loads(orjson.dumps(written))["error"]["message"]


@given(st.dictionaries(st.sampled_from(["error", "detail", "error_message", "object"]), JSON))
def test_reading_frames_never_raises(payload: dict[str, Any]) -> None:
    failure = read_error_frame(payload)
    assert failure.message
    assert 400 <= failure.status <= 599
    orjson.dumps(write_error_frame(failure))
