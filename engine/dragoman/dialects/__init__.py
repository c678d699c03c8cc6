"""The three dialects, each with a reader and a writer for requests, replies, streams and errors."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """A model API as spoken on the wire."""

    CHAT = "chat"
    MESSAGES = "messages"
    RESPONSES = "responses"

    # Enum's own is a Python call, in each of the many tables by dialect; and unlike that of the equal string.
    __hash__ = str.__hash__
