"""Empty accounts: recognizing the errors of vendors that report one by a sentence, with the status of a bad request."""

from __future__ import annotations

import re
from typing import Final

# Anthropic's empty credit balance, and its spend limits of workspaces and organizations: each is a 400
# `invalid_request_error` (public reports of 2026).
_EMPTY: Final = re.compile(
    r"credit balance is too low|reached your specified (?:workspace )?API usage limits", re.IGNORECASE
)


def is_empty_account(message: str) -> bool:
    """Return whether an error's message reports that the account has no credit, or has reached its spend limit."""
    return _EMPTY.search(message) is not None
