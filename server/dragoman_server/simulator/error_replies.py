"""Error responses: the status tables, bodies and retry headers of the two vendors."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman_server.simulator.api import APIS
from dragoman_server.simulator.parse_request import Json

OPENAI: dict[int, tuple[str, str | None]] = {
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
"""`type` and `code` by status, as OpenAI sends them with Chat Completions and Responses."""

ANTHROPIC: dict[int, str] = {
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
"""`error.type` by status, as Anthropic sends it."""

THREAD_NOT_FOUND = "thread_not_found"
"""Anthropic's code for an unknown or expired thread: its SDKs send the whole history again."""
_MESSAGES = {
    401: "Incorrect API key provided",
    402: "Your credit balance is too low",
    403: "You do not have access to this model",
    404: "The model does not exist",
    413: "Request exceeds the maximum size",
    429: "Rate limit reached, please retry later",
    500: "The server had an error while processing your request",
    503: "The server is overloaded",
    529: "Overloaded",
}
_RETRIED = frozenset({408, 409, 429})
_WITH_WAIT = frozenset({429, 503, 529})


class RequestRejected(Exception):
    """A request that gets an error response. `param` is the field's path in OpenAI's notation."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, *, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error response."""

    status: int
    body: Json
    headers: dict[str, str]


def rejection_reply(dialect: str, refused: RequestRejected, request_id: str) -> ErrorReply:
    """Return the response to a rejected request, in the form of its dialect."""
    status = refused.status
    if APIS[dialect].is_anthropic:
        reply = _anthropic(status, refused.message, request_id, {})
        if refused.code == THREAD_NOT_FOUND:
            reply.body["error"]["details"] = {"error_code": refused.code}
        return reply
    kind, code = OPENAI.get(status, ("invalid_request_error", None))
    return ErrorReply(status, _openai(refused.message, kind, refused.param, refused.code or code), {})


def scripted_reply(dialect: str, status: int, variant: str, request_id: str, retry_after: float) -> ErrorReply:
    """Return the error response of `sim-error-STATUS`.

    Variant `quota` is the 429 that clients must not retry, `context` the 400 for a prompt that is too long.
    """
    message = _MESSAGES.get(status, f"Simulated error {status}")
    headers: dict[str, str] = {}
    if status in _WITH_WAIT and variant != "quota":
        headers["retry-after"] = str(max(1, round(retry_after)))
        if not APIS[dialect].is_anthropic:
            headers["retry-after-ms"] = str(round(retry_after * 1000))
    if APIS[dialect].is_anthropic:
        if variant == "context":
            message = "prompt is too long: 212345 tokens > 200000 maximum"
        elif variant == "quota":
            message = "This request would exceed your organization's monthly spend limit"
        retried = variant != "quota" and (status in _RETRIED or status >= 500)
        return _anthropic(status, message, request_id, {**headers, "x-should-retry": "true" if retried else "false"})
    kind, code = OPENAI.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    if variant == "quota":
        message, kind, code = "You exceeded your current quota", "insufficient_quota", "insufficient_quota"
        headers["x-should-retry"] = "false"
    elif variant == "context":
        message = "Your input exceeds the context window of this model."
        code = "context_length_exceeded"
    return ErrorReply(status, _openai(message, kind, None, code), headers)


def _openai(message: str, kind: str, param: str | None, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _anthropic(status: int, message: str, request_id: str, headers: dict[str, str]) -> ErrorReply:
    kind = ANTHROPIC.get(status, "api_error" if status >= 500 else "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    return ErrorReply(status, body, headers)
