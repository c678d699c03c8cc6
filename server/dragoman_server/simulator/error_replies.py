"""Error responses: what those of all vendors have in common."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman_server.simulator.parse_request import Json

THREAD_NOT_FOUND = "thread_not_found"
"""Anthropic's code for an unknown or expired thread: its SDKs send the whole history again."""
TEXTS = {
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
"""The messages of scripted errors by status."""
WITH_WAIT = frozenset({429, 503, 529})
"""The statuses of errors that state when to retry."""


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
