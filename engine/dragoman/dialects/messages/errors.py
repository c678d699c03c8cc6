"""Errors of Messages, read and written (messages §11, mapping §10.2, §10.3).

The envelope is `{"type": "error", "error": {type, message, details?}, "request_id"?}`, in-band the same. It has no
`param` and no `code`: a gateway's own message names the client's field itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.context_overflow import as_prompt_too_long
from dragoman.dialects.errors.read import read_error_payload, read_error_response
from dragoman.errors import Failure, FailureKind

_K = FailureKind

_TABLE: dict[FailureKind, tuple[int, str]] = {
    _K.INVALID_REQUEST: (400, "invalid_request_error"),
    _K.AUTHENTICATION: (401, "authentication_error"),
    _K.BILLING: (402, "billing_error"),
    _K.PERMISSION: (403, "permission_error"),
    _K.NOT_FOUND: (404, "not_found_error"),
    _K.CONFLICT: (409, "conflict_error"),
    _K.TOO_LARGE: (413, "request_too_large"),
    _K.RATE_LIMIT: (429, "rate_limit_error"),
    _K.CONTEXT_LENGTH: (400, "invalid_request_error"),
    _K.POLICY: (400, "invalid_request_error"),
    _K.API: (500, "api_error"),
    _K.OVERLOADED: (529, "overloaded_error"),
    _K.TIMEOUT: (504, "timeout_error"),
}
"""Kind → HTTP status and `error.type` (mapping §10.2)."""

_DETAIL_CODES = frozenset({"thread_unsupported_request"})
"""Machine codes that an SDK acts on (messages §11): its tool runner goes on by itself without `thread`."""


def read_failure(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an upstream's error answer says; also of an error body under a 2xx status. Never raises.

    The status is the upstream's; under 400 it is the one that the body's type tells, else 502.
    """
    return read_error_response(status, body, headers, Dialect.MESSAGES)


def read_error_frame(payload: Json) -> Failure:
    """What the payload of an `error` event says; its status is what its type implies. Never raises."""
    return read_error_payload(payload, Dialect.MESSAGES)


def write_failure(failure: Failure, request_id: str | None = None) -> tuple[int, Json]:
    """HTTP status and body for a Messages client."""
    status = _TABLE[failure.kind][0]
    if failure.kind is _K.API and failure.status == 502:
        status = 502
    elif failure.kind is _K.INVALID_REQUEST and failure.status == 408:
        status = 408  # the gateway's own: an upstream's is a timeout of the upstream
    return status, write_error_frame(failure, request_id)


def write_error_frame(failure: Failure, request_id: str | None = None) -> Json:
    """The payload of the in-band `error` event: last, with no `message_delta` or `message_stop` after it."""
    message = failure.message
    if failure.kind is _K.CONTEXT_LENGTH:
        message = as_prompt_too_long(message)
    error: Json = {"type": _TABLE[failure.kind][1], "message": message}
    if failure.code in _DETAIL_CODES:
        error["details"] = {"error_code": failure.code}
    body: Json = {"type": "error", "error": error}
    known = request_id or failure.request_id
    if known:
        body["request_id"] = known
    return body
