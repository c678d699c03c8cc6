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


_OWN_CODES: dict[FailureKind, frozenset[str]] = {
    FailureKind.BILLING: frozenset(("usage_not_included",)),
    FailureKind.OVERLOADED: frozenset(("slow_down",)),
    FailureKind.POLICY: frozenset(("bio_policy", "cyber_policy", "misalignment_policy_violation")),
}
"""Finer codes that agents know for the same (responses §9): between the OpenAI dialects they stay."""


def read_failure(status: int, body: bytes, headers: Mapping[str, str]) -> Failure:
    """What an upstream's error answer says; also of a failed response under a 2xx status. Never raises."""
    return read(status, body, headers, Dialect.RESPONSES)


def response_error(failure: Failure) -> Json:
    """The `error` of a failed response. Agents decide by its code whether to retry (mapping §10.3)."""
    code = _CODES.get(failure.kind, "server_error")
    if failure.code is not None and failure.code in _OWN_CODES.get(failure.kind, ()):
        code = failure.code
    return {"code": code, "message": failure.message}
