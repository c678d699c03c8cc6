"""The client's program, recognised by the headers of its requests."""

from __future__ import annotations

from dragoman_server.draft import Draft
from dragoman_server.scope import RequestScope


def recognise(scope: RequestScope, draft: Draft) -> None:
    """Record the profile of the client, if it is a known one."""
    if (known := draft.loaded.client_profiles.recognise(draft.request.headers)) is not None:
        scope.receipt.client_profile = known.name
