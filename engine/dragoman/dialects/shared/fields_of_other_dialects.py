"""Fields of one dialect in a request of another, as a client leaves them in when it switches its API."""

from __future__ import annotations

from typing import Final

REQUEST_FIELDS: Final[dict[str, frozenset[str]]] = {}
"""The top-level fields of each dialect's requests. `dialects.codec` fills it: the readers define them and use this."""


def owners(field: str) -> list[str]:
    """Returns the dialects whose requests have this field at their top level."""
    return [dialect for dialect, fields in REQUEST_FIELDS.items() if field in fields]
