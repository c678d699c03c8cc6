"""Errors of Responses: the envelope and statuses are Chat's, the in-band form is a failed response (mapping §10.3)."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import Failure, FailureKind
from ...model import Json
from .. import Dialect
from ..chat.failure import read_error_object, write_failure
from ..failures import read

__all__ = ("read_error_object", "read_failure", "response_error", "write_failure")

_CODES: dict[FailureKind, str] = {
    FailureKind.OVERLOADED: "server_is_overloaded",
    FailureKind.RATE_LIMIT: "rate_limit_exceeded",
    FailureKind.BILLING: "insufficient_quota",
    FailureKind.CONTEXT_LENGTH: "context_length_exceeded",
    FailureKind.POLICY: "invalid_prompt",
}


def read_failure(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an upstream's error answer says; also of a failed response under a 2xx status. Never raises."""
    return read(status, body, headers, Dialect.RESPONSES)


def response_error(failure: Failure) -> Json:
    """The `error` of a failed response. Agents decide by its code whether to retry (mapping §10.3)."""
    return {"code": _CODES.get(failure.kind, "server_error"), "message": failure.message}
