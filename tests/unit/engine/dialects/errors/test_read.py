"""Errors of any upstream, read from responses and from frames (mapping §11)."""

import json
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman.dialects.chat.errors import is_error_frame, write_error_frame
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.openai.error_envelope import error_object, write_failure
from dragoman.errors import (
    Failure,
    FailureKind,
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


def test_what_an_error_has_besides_is_noted() -> None:
    raw = json.dumps({"error": {"message": "No.", "inner": 1}})
    body = error("m", zz=1, empty=None, metadata={"provider_name": "p", "raw": raw}, details=[{"a": 1}])
    failure = answer(400, {**body, "user_id": "u", "request_id": "r", "type": "error"})
    assert sorted(failure.unread) == [
        "error.details",
        "error.inner",
        "error.metadata.provider_name",
        "error.zz",
        "user_id",
    ]
    assert answer(400, error("m", details={"error_code": "c", "zz": 1})).unread == ("error.details.zz",)
    many: dict[str, Any] = {f"k{number}": 1 for number in range(99)}
    assert len(answer(400, error("m", **many)).unread) == 32
    assert answer(400, error("m")).unread == answer(502, b"<html>").unread == ()


def error(message: str = "m", type: str | None = None, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "param": None, "code": code, **more}}


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


@pytest.mark.parametrize("message", ["\0", "\x1b\x07", " \n ", "\0" * 100_000 + "late"])
def test_a_message_without_a_visible_character_is_none(message: str) -> None:
    """Found by fuzzing: the error that clients received had an empty message."""
    error = {"type": "overloaded_error", "message": message}
    assert "without a message" in read_error_payload({"type": "error", "error": error}, Dialect.MESSAGES).message
    failure = read_error_response(529, json.dumps({"error": error}).encode(), {}, Dialect.MESSAGES)
    assert "without a message" in failure.message
