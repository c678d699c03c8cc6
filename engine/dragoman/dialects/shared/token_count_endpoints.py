"""The endpoints that count a request's tokens: Messages and Responses have one, Chat has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman.dialects import Dialect
from dragoman.short_repr import short_repr

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CountEndpoint:
    """A dialect's endpoint that counts tokens: its path below the base URL, and the request fields that it takes."""

    path: str
    fields: frozenset[str]
    named: str | None
    """The response's `object`, if the dialect has one."""

    def __repr__(self) -> str:
        return short_repr(self, self.path)

    def question(self, request: Json) -> Json:
        """Return the request to count for a complete request of the dialect."""
        return {name: value for name, value in request.items() if name in self.fields}

    def read(self, answer: object) -> int | None:
        """Return the count in a response, or None; also for 0, which some servers send that cannot count (T-60)."""
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        return count if type(count) is int and count > 0 else None

    def write(self, count: int) -> Json:
        """Return a response with this count."""
        head: Json = {"object": self.named} if self.named else {}
        return {**head, "input_tokens": count}


_MESSAGES = (
    "cache_control",
    "context_management",
    "mcp_servers",
    "messages",
    "model",
    "output_config",
    "system",
    "thinking",
    "tool_choice",
    "tools",
)
_RESPONSES = (
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
)

COUNT_ENDPOINTS: dict[Dialect, CountEndpoint] = {
    Dialect.MESSAGES: CountEndpoint("messages/count_tokens", frozenset(_MESSAGES), None),
    Dialect.RESPONSES: CountEndpoint("responses/input_tokens", frozenset(_RESPONSES), "response.input_tokens"),
}
