"""The three dialects, each with a reader and a writer for requests, replies, streams and errors."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """A model API as spoken on the wire."""

    CHAT = "chat"
    MESSAGES = "messages"
    RESPONSES = "responses"
