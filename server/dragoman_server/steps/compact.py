"""Compaction of conversations: what is to be done with one, before it is known, and that it is done."""

from __future__ import annotations

from collections.abc import Awaitable

from dragoman_server.draft import Draft
from dragoman_server.proxy.request_keys import CONTINUED
from dragoman_server.scope import RequestScope


def plan_compaction(scope: RequestScope, draft: Draft) -> None:
    """Remove what asks for a compaction that the gateway does."""
    responses = scope.services.responses
    draft.compaction = responses.compactions.step(draft.request, draft.payload, draft.target, stores=responses.stores)
    if draft.compaction is not None:
        draft.payload = draft.compaction.payload


def compact(scope: RequestScope, draft: Draft) -> Awaitable[None] | None:
    """Compact the conversation, if that is to be done. Histories that clients hold become readable."""
    # The length first: most requests carry nothing, and a key that is missing costs an exception.
    if len(draft.request) > 0 and (continued := draft.request.get(CONTINUED)) is not None:
        from dragoman.threads import check_outputs  # 0.1 MB of memory, for connections only

        check_outputs(draft.payload, len(draft.payload["input"]) - continued.own)
    compactions = scope.services.responses.compactions
    if compactions.encrypts:
        compactions.decrypt(scope.receipt, draft)
    return None if draft.compaction is None else compactions.run(draft.compaction, scope.receipt, draft)
