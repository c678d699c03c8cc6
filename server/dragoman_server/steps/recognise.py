"""The client's program, recognised by the headers of its requests."""

from __future__ import annotations

from dragoman_server.draft import Draft
from dragoman_server.scope import RequestScope


async def recognise(scope: RequestScope, draft: Draft) -> Draft:
    """Record the profile of the client, if it is a known one."""
    if (known := draft.loaded.client_profiles.recognise(draft.request.headers)) is not None:
        scope.receipt.client_profile = known.name
    return draft
