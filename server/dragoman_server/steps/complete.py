"""The output limit, which a request for a count does not need and its translation does."""

from __future__ import annotations

from dragoman_server.draft import Draft
from dragoman_server.scope import RequestScope

_CAP = 128_000
"""An output limit that is large enough for any thinking budget. It is not counted."""


def complete(scope: RequestScope, draft: Draft) -> None:
    """Add the output limit to a request that must have one."""
    name = scope.receipt.client.facts.output_cap
    if name and name not in draft.payload:
        cap = draft.target.provider.profile.max_output_tokens or _CAP
        draft.payload = {**draft.payload, name: cap}
