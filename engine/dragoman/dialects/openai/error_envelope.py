"""The error envelope of Chat and Responses: `{"error": {message, type, param, code}}` (mapping §10.1)."""

from __future__ import annotations

import re
from collections.abc import Collection

from dragoman.canonical.request import Json
from dragoman.errors import Failure, FailureKind

_K = FailureKind


_TABLE: dict[FailureKind, tuple[int, str, str | None]] = {
    _K.INVALID_REQUEST: (400, "invalid_request_error", None),
    _K.AUTHENTICATION: (401, "invalid_request_error", "invalid_api_key"),
    _K.BILLING: (402, "insufficient_quota", "insufficient_quota"),
    _K.PERMISSION: (403, "permission_error", None),
    _K.NOT_FOUND: (404, "invalid_request_error", None),
    _K.CONFLICT: (409, "invalid_request_error", None),
    _K.TOO_LARGE: (413, "invalid_request_error", None),
    _K.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    _K.CONTEXT_LENGTH: (400, "invalid_request_error", "context_length_exceeded"),
    _K.POLICY: (400, "invalid_request_error", "invalid_prompt"),
    _K.API: (500, "server_error", None),
    _K.OVERLOADED: (503, "service_unavailable_error", "server_is_overloaded"),
    _K.TIMEOUT: (504, "server_error", None),
}
"""Kind → HTTP status, `type`, and the `code` of a failure that has none (mapping §10.1)."""


_KEPT_STATUSES: dict[FailureKind, Collection[int]] = {
    _K.INVALID_REQUEST: range(400, 500),
    _K.API: range(500, 600),
    _K.BILLING: (429,),
    _K.TIMEOUT: (408,),
    _K.POLICY: (403,),
}
"""Kind → the upstream's statuses that this API has for it too, which are sent instead of the table's."""


_OWN_TYPES: dict[FailureKind, frozenset[str]] = {
    _K.RATE_LIMIT: frozenset(("requests", "tokens")),
    _K.BILLING: frozenset(("insufficient_quota",)),
}
"""Values of `type` that only OpenAI sends. A failure that has one came in this envelope, so it is kept."""


_OWN_CODES = frozenset(
    ("insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached", "billing_not_active",
     "usage_not_included")
)  # fmt: skip
"""Billing codes that OpenAI's own clients know: kept between Chat and Responses."""


_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)


def write_failure(failure: Failure, request_id: str | None = None) -> tuple[int, Json]:
    """Return HTTP status and body for a Chat or Responses client. The request id is sent in a header, not here."""
    kept = failure.status in _KEPT_STATUSES.get(failure.kind, ())
    return failure.status if kept else _TABLE[failure.kind][0], {"error": error_object(failure)}


def error_object(failure: Failure) -> Json:
    """Return the object inside the envelope, with all four keys: the API requires them."""
    kind = failure.kind
    _, error_type, code = _TABLE[kind]
    own = failure.native_type in _OWN_TYPES.get(kind, ())
    if own and failure.native_type:
        error_type = failure.native_type
    if kind is _K.CONTEXT_LENGTH or (kind is _K.BILLING and not own and failure.code not in _OWN_CODES):
        pass  # agents do not retry after these codes: a more specific code of another API must not replace them
    elif failure.code:
        code = failure.code
    elif kind is _K.NOT_FOUND and _MODEL.search(failure.message):
        code = "model_not_found"
    return {"message": failure.message, "type": error_type, "param": failure.param, "code": code}
