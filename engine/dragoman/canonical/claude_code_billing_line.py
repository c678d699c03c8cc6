"""The billing line that Claude Code puts at the head of its system prompt.

Only Anthropic reads it. For any other server it is text that changes with every request, so that no prompt cache hits.
Translated requests lose it through `policies.drop_billing_line`, requests that are passed through by
`dialects.messages.request.drop_billing_line`.
"""

from __future__ import annotations

from typing import Final

BILLING_LINE: Final = "x-anthropic-billing-header:"
"""The line's first characters."""
BILLING_LINE_DROPPED: Final = "the client's billing line was left out"
"""The text of the loss row."""


def without_first_line(text: str) -> str:
    """Return the lines after the first: clients that join their blocks put the prompt there."""
    return text.partition("\n")[2].lstrip("\n")
