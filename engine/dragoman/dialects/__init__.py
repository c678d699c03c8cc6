"""The three model APIs. One package per dialect holds its readers and writers of requests, replies, streams and errors.

A dialect's package imports `shared`, `errors` and (the two OpenAI dialects) `openai`, never another dialect. Start with
`codec.py`, which lists what each dialect provides; `all_codecs.py` imports a dialect at its first use.
"""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """A model API's wire format: OpenAI Chat Completions, Anthropic Messages or OpenAI Responses."""

    CHAT = "chat"
    MESSAGES = "messages"
    RESPONSES = "responses"

    # Enum's own is a Python call, in each of the many tables by dialect; and it differs from that of the equal string.
    __hash__ = str.__hash__

    @property
    def path(self) -> str:
        """The path of its endpoint below the vendor's base URL, such as `chat/completions`."""
        return "chat/completions" if self == "chat" else self.value

    @property
    def request_id_header(self) -> str:
        """The response header in which the dialect's SDKs look for the request id."""
        return "request-id" if self == "messages" else "x-request-id"
