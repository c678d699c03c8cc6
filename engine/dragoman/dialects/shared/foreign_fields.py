"""Fields of one dialect in a request of another: what a harness leaves in when it switches its API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.chat.request.read import FIELDS as CHAT
from dragoman.dialects.messages.request.read import FIELDS as MESSAGES
from dragoman.dialects.responses.request.read import FIELDS as RESPONSES

_FIELDS: Final[Mapping[str, frozenset[str]]] = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


def owners(field: str) -> list[str]:
    """The dialects whose requests have this field at their top level."""
    return [dialect for dialect, known in _FIELDS.items() if field in known]
