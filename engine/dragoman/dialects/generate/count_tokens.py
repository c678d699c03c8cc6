"""`countTokens`: the request that counts the tokens of another one, and its reply (ai.google.dev/api/tokens)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.dialects.count_endpoint import CountEndpoint
from dragoman.dialects.facts import MODEL_FOLDERS

Json = dict[str, Any]
_PUBLISHERS: Final = "/publishers/"
_FOLDERS: Final = tuple(f"{folder}/" for folder in MODEL_FOLDERS)


class GenerateCount(CountEndpoint):
    """The endpoint of Gemini's API, which takes a whole request of `generateContent` with its model in a field.

    Vertex, whose paths name a publisher, takes the fields of a request themselves, but no `toolConfig`.
    """

    __slots__ = ()

    def question(self, request: Json, model: str, url: str) -> Json:
        """See `CountEndpoint.question`."""
        counted = super().question(request, model, url)
        if _PUBLISHERS in url:
            counted.pop("toolConfig", None)
            return counted
        named = model if model.startswith(_FOLDERS) else f"models/{model}"
        return {"generateContentRequest": {"model": named, **counted}}

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
"""The endpoint of Gemini's API."""
