"""Errors of the Responses dialect: envelope and statuses are Chat's, in a stream an error is a failed response.

The rules are in mapping §10.3.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json
from dragoman.errors import Failure, FailureKind
from dragoman.knobs import DEFAULT_KNOBS, Knobs

# fmt: off
DOCUMENTED: Final = frozenset({
    "server_error", "rate_limit_exceeded", "invalid_prompt", "data_residency_mismatch", "bio_policy",
    "misalignment_policy_violation", "vector_store_timeout", "invalid_image", "invalid_image_format",
    "invalid_base64_image", "invalid_image_url", "image_too_large", "image_too_small", "image_parse_error",
    "image_content_policy_violation", "invalid_image_mode", "image_file_too_large", "unsupported_image_media_type",
    "empty_image_file", "failed_to_download_image", "image_file_not_found",
})
# fmt: on
"""`ResponseError.code` in the API's schema (responses §7). A strictly typed client fails to parse any other code."""

_CODES: Final[dict[FailureKind, str]] = {
    FailureKind.RATE_LIMIT: "rate_limit_exceeded",
    FailureKind.BILLING: "rate_limit_exceeded",  # The schema has no code for it. The API's status for it is 429 too.
    FailureKind.CONTEXT_LENGTH: "invalid_prompt",
    FailureKind.POLICY: "invalid_prompt",
    FailureKind.INVALID_REQUEST: "invalid_prompt",  # after `server_error` clients repeat the request
}

_CODEX_CODES: Final[dict[FailureKind, str]] = {
    FailureKind.OVERLOADED: "server_is_overloaded",
    FailureKind.RATE_LIMIT: "rate_limit_exceeded",
    FailureKind.BILLING: "insufficient_quota",
    FailureKind.CONTEXT_LENGTH: "context_length_exceeded",
    FailureKind.POLICY: "invalid_prompt",
    FailureKind.INVALID_REQUEST: "invalid_prompt",
}
"""Codes of OpenAI's service that are not in its schema. By these Codex retries, compacts the history or gives up."""

_CODEX_FINER: Final[dict[FailureKind, frozenset[str]]] = {
    FailureKind.BILLING: frozenset(("usage_not_included",)),
    FailureKind.OVERLOADED: frozenset(("slow_down",)),
    FailureKind.POLICY: frozenset(("bio_policy", "cyber_policy", "misalignment_policy_violation")),
}
"""Finer codes that Codex knows for the same kinds (responses §9). They are kept if the upstream sent them."""


def response_error(failure: Failure, knobs: Knobs = DEFAULT_KNOBS) -> Json:
    """Return the `error` of a failed response. The knob `error_codes` selects the codes that the client knows."""
    kind, code = failure.kind, failure.code
    if knobs.error_codes == "codex":
        known = code is not None and code in _CODEX_FINER.get(kind, ())
        return {"code": code if known else _CODEX_CODES.get(kind, "server_error"), "message": failure.message}
    known = code is not None and code in DOCUMENTED
    return {"code": code if known else _CODES.get(kind, "server_error"), "message": failure.message}
