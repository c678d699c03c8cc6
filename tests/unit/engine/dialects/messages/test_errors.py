"""Error answers of Messages upstreams and what Messages clients are reported (mapping §10)."""

from dataclasses import replace
from functools import partial
from typing import Any

import anthropic
import httpx2
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.dialects.messages.errors import write_error_frame, write_failure
from dragoman.errors import (
    ClientRequestError,
    Failure,
    FailureKind,
    LimitExceeded,
    StreamTruncated,
    UpstreamTimeout,
    UpstreamUnreachable,
)

read_failure = partial(read_error_response, dialect=Dialect.MESSAGES)
read_error_frame = partial(read_error_payload, dialect=Dialect.MESSAGES)

K = FailureKind


@pytest.mark.parametrize(
    ("status", "code", "written"),
    [
        (400, None, (400, "invalid_request_error")),
        (422, None, (400, "invalid_request_error")),
        (401, "invalid_api_key", (401, "authentication_error")),
        (402, None, (402, "billing_error")),
        (429, "insufficient_quota", (402, "billing_error")),
        (403, None, (403, "permission_error")),
        (404, "model_not_found", (404, "not_found_error")),
        (409, None, (409, "conflict_error")),
        (413, None, (413, "request_too_large")),
        (429, "rate_limit_exceeded", (429, "rate_limit_error")),
        (500, None, (500, "api_error")),
        (501, None, (500, "api_error")),
        (520, None, (500, "api_error")),
        (502, None, (502, "api_error")),
        (503, "server_is_overloaded", (529, "overloaded_error")),
        (503, None, (529, "overloaded_error")),
        (408, None, (504, "timeout_error")),
        (504, None, (504, "timeout_error")),
        (400, "content_filter", (400, "invalid_request_error")),
    ],
)
def test_chat_errors_for_messages_clients(status: int, code: str | None, written: tuple[int, str]) -> None:
    """mapping §10.2, row by row."""
    body = orjson.dumps({"error": {"message": "why", "type": "x", "param": None, "code": code}})
    noted, payload = write_failure(read_error_response(status, body, {}, Dialect.CHAT), "req_9")
    assert noted == written[0]
    assert payload == {"type": "error", "error": {"type": written[1], "message": "why"}, "request_id": "req_9"}


@pytest.mark.parametrize(
    ("message", "head"),
    [
        (
            "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (120000 in the "
            "messages, 10000 in the completion). Please reduce the length.",
            "130000 > 128000",
        ),
        (
            "This model's maximum context length is 128,000 tokens. However, your messages resulted in 130,001 tokens.",
            "130001 > 128000",
        ),
        (
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
            "300000 > 272000",
        ),
        ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 4096 "
            "tokens and your request has 3500 input tokens (1000 > 4096 - 3500).",
            "4500 > 4096",
        ),
        (
            "You passed 5000 input tokens and requested 1000 output tokens. However, the model's context length is "
            "only 4096 tokens, resulting in a maximum input length of 3096 tokens.",
            "5000 > 4096",
        ),
        (
            "You passed 3500 input tokens and requested 1000 output tokens. However, the model's context length is "
            "only 4096 tokens, resulting in a maximum input length of 3096 tokens.",
            "4500 > 4096",
        ),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "5000 > 4096"),
        (
            "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total "
            "of 40000 tokens: 30000 tokens from the input messages and 10000 tokens for the completion.",
            "40000 > 32768",
        ),
        ("The input (40000 tokens) is longer than the model's context length (32768 tokens).", "40000 > 32768"),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", "5000 > 4096"),
        ("the request exceeds the available context size. try increasing the context size", None),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "1200000 > 1048576",
        ),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "40000 > 32768",
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "537812 > 131072",
        ),
        (
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
            "300000 > 262144",
        ),
        ("prompt token count of 140000 exceeds the limit of 128000", "140000 > 128000"),
        ("Range of input length should be [1, 30720]", None),
        ("This model's maximum context length is 4096 tokens, but you requested 100 tokens with 5000 in images", None),
        ("Input is too long for requested model.", None),
        ("prompt too long; exceeded max context length by 4 tokens", None),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
            "209573 > 200000",
        ),
    ],
)
def test_overflow_begins_as_claude_code_needs_it(message: str, head: str | None) -> None:
    """Claude Code compacts only on `prompt is too long: N tokens > M maximum` (clients, point 13)."""
    body = orjson.dumps({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}})
    failure = read_error_response(400, body, {}, Dialect.CHAT)
    assert failure.kind is K.CONTEXT_LENGTH
    status, payload = write_failure(failure)
    noted = payload["error"]["message"]
    asked, most = head.split(" > ") if head else ("", "")
    want = f"prompt is too long: {asked} tokens > {most} maximum" if head else "prompt is too long"
    assert noted == f"{want} ({message})"
    assert (status, payload["error"]["type"]) == (400, "invalid_request_error")


def test_overflow_by_code_alone() -> None:
    body = orjson.dumps({"error": {"message": "too big", "type": None, "code": "context_length_exceeded"}})
    assert (
        write_failure(read_error_response(400, body, {}, Dialect.CHAT))[1]["error"]["message"]
        == "prompt is too long (too big)"
    )


@pytest.mark.parametrize("status", [400, 200])
def test_llama_cpp_states_the_sizes_beside_its_sentence(status: int) -> None:
    sentence = "the request exceeds the available context size, try increasing it"
    noted = {"code": 400, "message": sentence, "type": "exceed_context_size_error", "n_prompt_tokens": 9000}
    for n_ctx, head in ((8192, "prompt is too long: 9000 tokens > 8192 maximum"), ("8192", "prompt is too long (")):
        body = orjson.dumps({"error": {**noted, "n_ctx": n_ctx}})
        message = write_failure(read_error_response(status, body, {}, Dialect.CHAT))[1]["error"]["message"]
        assert message.startswith(head)
        assert sentence in message


def test_overflow_already_stated_is_kept_and_only_moves_behind_the_name() -> None:
    native = "prompt is too long: 210000 tokens > 200000 maximum"
    failure = read_failure(400, _envelope("invalid_request_error", native), {})
    assert write_failure(failure)[1]["error"]["message"] == native
    prefixed = replace(failure, message=f"claude: {native}")  # as routers do
    assert write_failure(prefixed)[1]["error"]["message"] == f"{native} (claude)"
    assert write_error_frame(Failure(K.CONTEXT_LENGTH, "Prompt is too long", 400))["error"]["message"] == (
        "prompt is too long"
    )


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Extra usage is required for prompts whose maximum context length is over 200000"),
        (401, "prompt is too long"),
        (400, "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760"),
    ],
)
def test_other_errors_are_not_taken_for_overflow(status: int, message: str) -> None:
    failure = read_failure(status, _envelope("invalid_request_error", message), {})
    assert failure.kind is not K.CONTEXT_LENGTH
    assert write_failure(failure)[1]["error"]["message"] == message


def _envelope(type: str, message: str, **more: Any) -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": type, "message": message}, **more})


@pytest.mark.parametrize(
    ("type", "kind", "status"),
    [
        ("invalid_request_error", K.INVALID_REQUEST, 400),
        ("authentication_error", K.AUTHENTICATION, 401),
        ("billing_error", K.BILLING, 402),
        ("permission_error", K.PERMISSION, 403),
        ("not_found_error", K.NOT_FOUND, 404),
        ("conflict_error", K.CONFLICT, 409),
        ("request_too_large", K.TOO_LARGE, 413),
        ("rate_limit_error", K.RATE_LIMIT, 429),
        ("api_error", K.API, 500),
        ("timeout_error", K.TIMEOUT, 504),
        ("overloaded_error", K.OVERLOADED, 529),
        ("some_new_error", K.API, 502),
    ],
)
def test_types_imply_their_status_in_band(type: str, kind: FailureKind, status: int) -> None:
    raw = _envelope(type, "m", request_id="req_7")
    frame = read_error_frame(orjson.loads(raw))
    assert (frame.kind, frame.status, frame.native_type, frame.request_id) == (kind, status, type, "req_7")
    under_200 = read_failure(200, raw, {})
    assert (under_200.kind, under_200.status) == (kind, status)


def test_what_is_kept_of_an_answer() -> None:
    raw = orjson.dumps(
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "two tools are called x",
                "details": {"error_code": "tool_name_conflict"},
            },
            "request_id": "req_1",
        }
    )
    failure = read_failure(
        400, raw, {"Request-Id": "req_2", "retry-after": "3", "anthropic-ratelimit-tokens-limit": "9"}
    )
    assert (failure.native_type, failure.code, failure.param) == ("invalid_request_error", "tool_name_conflict", None)
    assert failure.request_id == "req_1"
    assert failure.headers == {"retry-after": "3", "anthropic-ratelimit-tokens-limit": "9"}
    assert read_failure(500, b"", {"request-id": "a", "x-request-id": "b"}).request_id == "a"
    assert read_failure(500, b"", {"x-request-id": "b"}).request_id == "b"


def test_openai_shapes_on_a_messages_endpoint_are_read_too() -> None:
    failure = read_failure(429, b'{"error":{"message":"no money","type":"x","code":"insufficient_quota"}}', {})
    assert (failure.kind, failure.message) == (K.BILLING, "no money")


@pytest.mark.parametrize(
    ("failure", "status", "type", "message"),
    [
        (
            ClientRequestError(("messages", 2, "content"), "expected an array").failure,
            400,
            "invalid_request_error",
            "messages[2].content: expected an array",
        ),
        (
            LimitExceeded("request_body", 9, upstream=False).failure,
            413,
            "request_too_large",
            "request exceeds the limit request_body = 9",
        ),
        (UpstreamUnreachable("no route").failure, 502, "api_error", "no route"),
        (
            UpstreamTimeout("first_byte", 30).failure,
            504,
            "timeout_error",
            "upstream timed out: nothing within 30 s (first_byte)",
        ),
        (Failure(K.OVERLOADED, "shutting down", 503), 529, "overloaded_error", "shutting down"),
    ],
)
def test_the_gateways_own_failures(failure: Failure, status: int, type: str, message: str) -> None:
    assert write_failure(failure) == (status, {"type": "error", "error": {"type": type, "message": message}})


def test_T22_T23_cut_streams_and_frames_are_in_the_shape_that_clients_parse() -> None:
    assert write_error_frame(StreamTruncated().failure) == {
        "type": "error",
        "error": {"type": "api_error", "message": "upstream stream ended before its terminal event"},
    }
    overloaded = read_error_payload(
        {"error": {"message": "The server is overloaded", "code": "server_is_overloaded"}}, Dialect.CHAT
    )
    assert write_error_frame(overloaded, "req_1") == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "The server is overloaded"},
        "request_id": "req_1",
    }


CLASSES: dict[int, type[anthropic.APIStatusError]] = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    409: anthropic.ConflictError,
    429: anthropic.RateLimitError,
}


@pytest.mark.few
@pytest.mark.parametrize("kind", list(K))
def test_the_sdk_reads_every_kind(kind: FailureKind) -> None:
    client = anthropic.Anthropic(api_key="k", base_url="http://host")
    status, body = write_failure(Failure(kind, "what happened", 0), "req_1")
    response = httpx2.Response(
        status,
        content=orjson.dumps(body),
        headers={"request-id": "req_1"},
        request=httpx2.Request("POST", "http://host/v1/messages"),
    )
    raised = client._make_status_error_from_response(response)
    assert isinstance(raised, CLASSES.get(status, anthropic.APIStatusError))
    assert (raised.status_code, raised.request_id) == (status, "req_1")
    assert raised.body == body
    assert "what happened" in raised.message
    client.close()


@given(st.integers(100, 599), st.binary(max_size=200))
def test_reading_never_raises(status: int, body: bytes) -> None:
    failure = read_failure(status, body, {})
    assert failure.message
    assert failure.status >= 400
    noted, written = write_failure(failure)
    assert 400 <= noted <= 599
    orjson.dumps(written)


@given(st.text(max_size=300))
def test_every_overflow_begins_with_the_words(message: str) -> None:
    written = write_error_frame(Failure(K.CONTEXT_LENGTH, message, 400))
    assert written["error"]["message"].startswith("prompt is too long")
