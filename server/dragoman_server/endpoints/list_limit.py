"""The parameter `limit` of the endpoints that return lists."""

from __future__ import annotations

from dragoman import ClientRequestError


def read_limit(word: str | None, default: int, most: int) -> int:
    """Return the number of rows to return. Raises ClientRequestError if it is not from 1 to `most`."""
    if word is None:
        return default
    if word.isascii() and word.isdigit() and len(word) <= 9 and 1 <= int(word) <= most:
        return int(word)
    raise ClientRequestError("limit", f"expected a number from 1 to {most}; got {word[:20]!a}")
