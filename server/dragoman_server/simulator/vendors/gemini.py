"""Google: the errors, headers and model lists of Gemini's API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman_server.simulator.error_replies import TEXTS, WITH_WAIT, ErrorReply, RequestRejected
from dragoman_server.simulator.parse_request import Json
from dragoman_server.simulator.vendors.vendor import Vendor

_ERRORS: dict[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
"""`error.status` by HTTP status (`google.rpc.Code`)."""
_QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
_RETRY = "type.googleapis.com/google.rpc.RetryInfo"
_FREE = frozenset({"args", "response", "parameters", "parametersJsonSchema", "responseJsonSchema", "responseSchema"})
"""Fields with JSON of the client's."""
_PAGE = 1000
"""Most models of a page."""


def _reply_headers(request_id: str, now: float) -> dict[str, str]:
    return {"server-timing": "gfet4t7; dur=7"}


def _rejection(refused: RequestRejected, request_id: str) -> ErrorReply:
    return _error(refused.status, refused.message)


def _scripted_error(status: int, variant: str, request_id: str, retry_after: float) -> ErrorReply:
    """Google states when to retry in the details, never in a header."""
    message = TEXTS.get(status, f"Simulated error {status}")
    if variant == "context":
        return _error(status, "The input token count (212345) exceeds the maximum number of tokens allowed (200000).")
    if variant == "quota":
        violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}
        return _error(status, "You exceeded your current quota.", {"@type": _QUOTA, "violations": [violation]})
    if status in WITH_WAIT:
        return _error(status, message, {"@type": _RETRY, "retryDelay": f"{retry_after:g}s"})
    return _error(status, message)


def _error(status: int, message: str, *details: Json) -> ErrorReply:
    name = _ERRORS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    error: Json = {"code": status, "message": message, "status": name, **({"details": [*details]} if details else {})}
    return ErrorReply(status, {"error": error}, {})


def _model(name: str) -> Json:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name.replace("sim-", "Simulated ").replace("-", " "),
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }


def _model_list(names: Iterable[str], query: Mapping[str, str]) -> Json:
    """Return a page of the list. The token of the next one is where it begins."""
    found = [*names]
    begin = int(query.get("pageToken") or 0)
    end = begin + min(int(query.get("pageSize") or 50), _PAGE)
    following = {"nextPageToken": str(end)} if end < len(found) else {}
    return {"models": [_model(name) for name in found[begin:end]], **following}


def _camel_case(value: Any) -> Any:
    """Return a request with all its names in the camel case; Google takes snake case too."""
    if isinstance(value, list):
        return [_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("_([a-z])", lambda found: found[1].upper(), name): each for name, each in value.items()}
    return {name: each if name in _FREE else _camel_case(each) for name, each in named.items()}


VENDOR = Vendor(
    keyless_text="Method doesn't allow unregistered callers. Please use API Key.",
    reply_headers=_reply_headers,
    rejection=_rejection,
    scripted_error=_scripted_error,
    model=_model,
    model_list=_model_list,
    key_header="x-goog-api-key",
    keyless_status=403,
    canonical=_camel_case,
)
