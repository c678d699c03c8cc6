"""`countTokens`: the request that counts the tokens of another one, and its reply (ai.google.dev/api/tokens)."""

from __future__ import annotations

from typing import Any

from dragoman.dialects.count_endpoint import CountEndpoint

Json = dict[str, Any]


class GenerateCount(CountEndpoint):
    """The endpoint of Gemini's API, which takes a whole request of `generateContent` with its model in a field."""

    __slots__ = ()

    def question(self, request: Json, model: str) -> Json:
        """See `CountEndpoint.question`."""
        named = f"models/{model.removeprefix('models/')}"
        return {"generateContentRequest": {"model": named, **super().question(request, model)}}

    def read(self, answer: object) -> int | None:
        """See `CountEndpoint.read`."""
        count = answer.get("totalTokens") if isinstance(answer, dict) else None
        return count if type(count) is int and count > 0 else None

    def write(self, count: int) -> Json:
        """See `CountEndpoint.write`."""
        return {"totalTokens": count}


COUNT = GenerateCount(
    "models/{model}:countTokens",
    frozenset(("systemInstruction", "tools", "toolConfig", "contents", "generationConfig")),
)
"""The endpoint of Gemini's API. Vertex takes the fields of a request itself, but no `toolConfig`."""
