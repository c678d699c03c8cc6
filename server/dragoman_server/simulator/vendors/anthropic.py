"""Anthropic: the errors, headers and model lists of Messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from dragoman_server.simulator.error_replies import TEXTS, THREAD_NOT_FOUND, WITH_WAIT, ErrorReply, RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.vendors.vendor import Vendor

_ERRORS: dict[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""`error.type` by status."""
_RETRIED = frozenset({408, 409, 429})
_LIMITS = (("requests", 4000), ("tokens", 480_000), ("input-tokens", 400_000), ("output-tokens", 80_000))


def _reply_headers(request_id: str, now: float) -> dict[str, str]:
    reset = datetime.fromtimestamp(int(now) + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {"request-id": request_id, "anthropic-organization-id": "00000000-0000-4000-8000-000000000001"}
    for kind, limit in _LIMITS:
        headers[f"anthropic-ratelimit-{kind}-limit"] = str(limit)
        headers[f"anthropic-ratelimit-{kind}-remaining"] = str(limit - 1)
        headers[f"anthropic-ratelimit-{kind}-reset"] = reset
    return headers


def _rejection(refused: RequestRejected, request_id: str) -> ErrorReply:
    reply = _error(refused.status, refused.message, request_id, {})
    if refused.code == THREAD_NOT_FOUND:
        reply.body["error"]["details"] = {"error_code": refused.code}
    return reply


def _scripted_error(status: int, variant: str, request_id: str, retry_after: float) -> ErrorReply:
    message = TEXTS.get(status, f"Simulated error {status}")
    if variant == "context":
        message = "prompt is too long: 212345 tokens > 200000 maximum"
    elif variant == "quota":
        message = "This request would exceed your organization's monthly spend limit"
    retried = variant != "quota" and (status in _RETRIED or status >= 500)
    headers = {"x-should-retry": "true" if retried else "false"}
    if status in WITH_WAIT and variant != "quota":
        headers["retry-after"] = str(max(1, round(retry_after)))
    return _error(status, message, request_id, headers)


def _error(status: int, message: str, request_id: str, headers: dict[str, str]) -> ErrorReply:
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    return ErrorReply(status, body, headers)


def _model(name: str) -> Json:
    return {
        "type": "model",
        "id": name,
        "display_name": name.replace("sim-", "Simulated ").replace("-", " "),
        "created_at": "2026-09-21T00:00:00Z",
        "lifecycle": "active",
        "line": None,
        "deprecated_at": None,
        "retires_at": None,
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": None,
    }


def _model_list(names: Iterable[str], query: Mapping[str, str]) -> Json:
    found = [*names]
    data = [_model(name) for name in found]
    return {"data": data, "has_more": False, "first_id": found[0], "last_id": found[-1]}


VENDOR = Vendor(
    keyless_text="x-api-key header is required",
    key_header="x-api-key",
    reply_headers=_reply_headers,
    rejection=_rejection,
    scripted_error=_scripted_error,
    model=_model,
    model_list=_model_list,
)
