"""The endpoints that are forwarded without translation, and the groups of them that a provider may serve."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from dragoman import Dialect

FORWARDED: Final = MappingProxyType(
    {
        "embeddings": "embeddings",
        "completions": "completions",
        "moderations": "moderations",
        "images/generations": "images",
        "images/edits": "images",
        "images/variations": "images",
        "audio/speech": "audio",
        "audio/transcriptions": "audio",
        "audio/translations": "audio",
        "rerank": "rerank",
    }
)
"""The group of each endpoint, by the endpoint's path below `/v1`."""
GROUPS: Final = tuple(dict.fromkeys(FORWARDED.values()))
"""All groups: the values of a provider's `endpoints`."""
FORMS: Final = ("images/edits", "images/variations", "audio/transcriptions", "audio/translations")
"""The endpoints whose requests may be forms with files."""
FORM_TYPE: Final = "multipart/form-data"


def default_groups(dialect: Dialect) -> tuple[str, ...]:
    """Return the groups that a provider serves if its configuration names none.

    Servers of OpenAI's dialects share one base URL for all of them, and answer 404 where they have no such endpoint.
    """
    return GROUPS if dialect.facts.forwarded else ()
