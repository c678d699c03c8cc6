"""The texts of requests that upstreams got."""

from __future__ import annotations

from typing import Any


def sent_texts(sent: Any) -> list[str]:
    """All texts of the conversation that an upstream got, in their order."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(text := value.get("text"), str) or isinstance(text := value.get("content"), str):
                found.extend([text] if text else ())  # Gemini signs an empty one
            for key, inner in value.items():
                if key in ("messages", "input", "contents", "content", "parts", "system"):
                    walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk({key: sent.get(key) for key in ("messages", "input", "contents")})
    return found
