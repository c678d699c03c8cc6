"""The errors of the engine: their origin and reason, which metrics and logs use."""

from __future__ import annotations

import pytest

from dragoman.aio import proxy_stream
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_error_response
from dragoman.errors import (
    ClientRequestError,
    DragomanError,
    FailureOrigin,
    LimitExceeded,
    StreamTruncated,
    TooMany,
    Unsupported,
    UpstreamProtocolError,
    UpstreamTimeout,
    UpstreamUnreachable,
)

CLIENT, PROXY, UPSTREAM = FailureOrigin.CLIENT, FailureOrigin.PROXY, FailureOrigin.UPSTREAM


@pytest.mark.parametrize(
    ("error", "origin", "reason"),
    [
        (ClientRequestError(("model",), "expected a string"), CLIENT, None),
        (TooMany(("messages",), "3 messages", "messages", 2), CLIENT, None),
        (Unsupported(("top_k",), "has no equivalent"), CLIENT, None),
        (LimitExceeded("request_body", 10, upstream=False), CLIENT, "limit"),
        (LimitExceeded("reply_body", 10, upstream=True), UPSTREAM, "limit"),
        (UpstreamProtocolError("upstream sent a reply without choices"), UPSTREAM, "protocol"),
        (StreamTruncated(), UPSTREAM, "truncated"),
        (UpstreamUnreachable("no route to host"), UPSTREAM, "unreachable"),
        *((UpstreamTimeout(name, 5), UPSTREAM, name) for name in ("connect", "first_byte", "idle", "tool_stall")),
        (DragomanError(proxy_stream.DEFECT), PROXY, "defect"),
        (DragomanError(proxy_stream.STOPPING), PROXY, "stopping"),
        (DragomanError(proxy_stream._GIVEN_UP), PROXY, "given_up"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_origin_and_reason(error: DragomanError, origin: FailureOrigin, reason: str | None) -> None:
    assert (error.failure.origin, error.failure.reason) == (origin, reason)


@pytest.mark.parametrize("text", ["upstream timed out: nothing within 5 s (connect)", "internal error of the gateway"])
def test_the_reason_is_never_taken_from_an_upstreams_message(text: str) -> None:
    body = b'{"error":{"message":"%b","code":"timeout","origin":"proxy","reason":"defect"}}' % text.encode()
    failure = read_error_response(504, body, {}, Dialect.CHAT)
    assert (failure.message, failure.code, failure.origin, failure.reason) == (text, "timeout", UPSTREAM, None)
