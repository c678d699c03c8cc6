"""Reads and writes errors of the Messages API (messages §11, mapping §10.2, §10.3).

Bodies and in-band events have the form `{"type": "error", "error": {type, message, details?}, "request_id"?}`. There is
no `param` and no `code`, so the gateway's own messages name the field of the client's request.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.errors.context_overflow import as_prompt_too_long
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
"""Codes that an SDK acts on (messages §11): on this one its tool runner retries without the field `thread`."""


def write_failure(failure: Failure, request_id: str | None = None) -> tuple[int, Json]:
    """Return the HTTP status and the body for a Messages client."""
    status = _TABLE[failure.kind][0]
    if failure.kind is _K.API and failure.status == 502:
        status = 502
    elif failure.kind is _K.INVALID_REQUEST and failure.status == 408:
        status = 408  # the client's body came too slowly; a 408 of an upstream is the kind TIMEOUT
    return status, write_error_frame(failure, request_id)


def write_error_frame(failure: Failure, request_id: str | None = None) -> Json:
    """Return the payload of the in-band `error` event. It is the last event: no `message_stop` follows."""
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
