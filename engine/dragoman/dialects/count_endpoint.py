"""The endpoint of a dialect that counts a request's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dragoman.short_repr import short_repr

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CountEndpoint:
    """A dialect's endpoint that counts tokens. A dialect with other forms of requests and responses has a subclass."""

    path: str
    """The path below the base URL, with `{model}` if the model is in it."""
    fields: frozenset[str]
    """The fields of a request that the endpoint takes."""
    named: str | None = None
    """The response's `object`, if the dialect has one."""

    def __repr__(self) -> str:
        return short_repr(self, self.path)

    def question(self, request: Json, model: str, url: str) -> Json:
        """Return the request to count, at `url`, for a complete request of the dialect to `model`."""
        return {name: value for name, value in request.items() if name in self.fields}

    def read(self, answer: object) -> int | None:
        """Return the count in a response, or None; also for 0, which some servers send that cannot count (T-60)."""
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        return count if type(count) is int and count > 0 else None

    def write(self, count: int) -> Json:
        """Return a response with this count."""
        head: Json = {"object": self.named} if self.named else {}
        return {**head, "input_tokens": count}
