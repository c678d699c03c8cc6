"""The endpoints that count a request's tokens: Messages and Responses have one, Chat has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman.dialects import Dialect

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CountEndpoint:
    """One dialect's. `path` is below the vendor's base URL; `fields` are those of a request that it takes."""

    path: str
    fields: frozenset[str]
    named: str | None
    """The answer's `object`, where it has one."""

    def question(self, request: Json) -> Json:
        """What to ask about a whole request of the dialect."""
        return {name: value for name, value in request.items() if name in self.fields}

    def read(self, answer: object) -> int | None:
        """The count in an answer. None for 0 as well, which some servers say who cannot count (T-60)."""
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        return count if type(count) is int and count > 0 else None

    def write(self, count: int) -> Json:
        """An answer."""
        told: Json = {"object": self.named} if self.named else {}
        told["input_tokens"] = count
        return told


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
