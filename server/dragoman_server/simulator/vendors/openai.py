"""OpenAI: the errors, headers and model lists of Chat Completions and Responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dragoman_server.simulator.error_replies import TEXTS, WITH_WAIT, ErrorReply, RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.vendors.vendor import Vendor

_ERRORS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("billing_error", "billing_not_active"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    409: ("conflict_error", None),
    413: ("invalid_request_error", "request_too_large"),
    422: ("invalid_request_error", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("service_unavailable_error", "server_is_overloaded"),
    529: ("service_unavailable_error", "server_is_overloaded"),
}
"""`type` and `code` by status."""
_HEADERS = {
    "openai-organization": "simulated-org",
    "openai-processing-ms": "7",
    "openai-version": "2020-10-01",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "2000000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-remaining-tokens": "1999988",
    "x-ratelimit-reset-requests": "6ms",
    "x-ratelimit-reset-tokens": "1m0s",
}


def _reply_headers(request_id: str, now: float) -> dict[str, str]:
    return {"x-request-id": request_id, **_HEADERS}


def _rejection(refused: RequestRejected, request_id: str) -> ErrorReply:
    kind, code = _ERRORS.get(refused.status, ("invalid_request_error", None))
    return ErrorReply(refused.status, _error(refused.message, kind, refused.param, refused.code or code), {})


def _scripted_error(status: int, variant: str, request_id: str, retry_after: float) -> ErrorReply:
    message = TEXTS.get(status, f"Simulated error {status}")
    headers: dict[str, str] = {}
    if status in WITH_WAIT and variant != "quota":
        headers["retry-after"] = str(max(1, round(retry_after)))
        headers["retry-after-ms"] = str(round(retry_after * 1000))
    kind, code = _ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    if variant == "quota":
        message, kind, code = "You exceeded your current quota", "insufficient_quota", "insufficient_quota"
        headers["x-should-retry"] = "false"
    elif variant == "context":
        message = "Your input exceeds the context window of this model."
        code = "context_length_exceeded"
    return ErrorReply(status, _error(message, kind, None, code), headers)


def _error(message: str, kind: str, param: str | None, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _model(name: str) -> Json:
    return {"id": name, "object": "model", "created": 1_790_000_000, "owned_by": "simulator"}


def _model_list(names: Iterable[str], query: Mapping[str, str]) -> Json:
    return {"object": "list", "data": [_model(name) for name in names]}


VENDOR = Vendor(
    keyless_text="You didn't provide an API key in the Authorization header.",
    reply_headers=_reply_headers,
    rejection=_rejection,
    scripted_error=_scripted_error,
    model=_model,
    model_list=_model_list,
)
