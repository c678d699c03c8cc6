"""Stored responses: a request that continues one gets the whole conversation. A step of gateways that store them."""

from __future__ import annotations

from functools import partial

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import LimitExceeded
from dragoman.gateway import STORED_DIALECT, StoredReply
from dragoman.threads import StoredRequest, check_outputs, is_conversation, references, with_history
from dragoman.wire import Json, json_dumps
from dragoman_server.draft import Draft, StoredTurn
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.item_references import with_stored_items
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_keys import CONTINUED
from dragoman_server.proxy.stored_responses import StoredResponses
from dragoman_server.routing.response_issuers import ContinuedObject, continued_by
from dragoman_server.scope import RequestScope


async def stored(scope: RequestScope, draft: Draft) -> None:
    """Put the conversation into a request, and find out how its reply is stored, or if it runs in the background.

    It has the conversation already if it is continued on a connection (`CONTINUED`).
    """
    responses, client = scope.services.responses.stored, scope.receipt.client
    if responses is None:
        return
    if not responses.serves(client, draft.target):
        if client is STORED_DIALECT and (continued := continued_by(draft.payload)) is not None:
            await _check_kept_there(scope, draft, responses, continued)
    else:
        if places := references(draft.payload):
            await _add_items(scope, draft, responses, places)
        size, owner, limit = len(draft.body), scope.receipt.owner, draft.loaded.config.server.limits.request_body
        request = await compute(size, partial(StoredRequest.read, draft.payload), owner, draft.request)
        is_background = draft.payload.get("background") is True
        if is_background:
            _check_background(scope, draft, responses, request)
            if draft.background is not None:
                return
            draft.payload = {key: value for key, value in draft.payload.items() if key != "background"}
            draft.body = await compute(size, partial(_written, draft.payload, limit), owner, draft.request)
        if request is not None:
            await _continue(scope, draft, responses, request, is_background=is_background)


async def _check_kept_there(
    scope: RequestScope, draft: Draft, responses: StoredResponses, continued: ContinuedObject
) -> None:
    """Raise ClientRequestError if what a request continues is stored here, but its provider has only its own."""
    receipt, field = scope.receipt, continued.field
    if CONTINUED in draft.request or scope.services.routing.issuers.find(receipt.owner, continued.id) is not None:
        return
    owner = owner_of(receipt.owner, receipt.key)
    read = responses.members if is_conversation(continued.id) else responses.path
    try:
        known = await read(owner, continued.id)
    except DragomanError:
        return  # the store does not answer, and the provider may have it
    if known:
        provider = draft.target.provider.name
        setting = f'providers.{provider}.state = "gateway"'
        message = (
            f"is stored by this gateway, but the provider {provider} continues only what it has stored: set {setting}"
        )
        raise ClientRequestError((field,), message)


async def _add_items(scope: RequestScope, draft: Draft, responses: StoredResponses, places: dict[int, str]) -> None:
    """Replace the references to stored items."""
    owner, limit = owner_of(scope.receipt.owner, scope.receipt.key), draft.loaded.config.server.limits.request_body
    draft.payload = await with_stored_items(responses, owner, draft.payload, places, limit)
    draft.body = _written(draft.payload, limit)


def _check_background(
    scope: RequestScope, draft: Draft, responses: StoredResponses, request: StoredRequest | None
) -> None:
    """Mark a request that is to run in the background, and does not yet. Raises DragomanError for one that cannot."""
    if responses.check_background is None:
        why = ", as state.runs_url names no Redis" if responses.lacks_runs else ""
        message = f"responses do not run in the background of this gateway{why}; use `stream`"
        raise ClientRequestError("background", message)
    if request is None or not request.store:
        raise ClientRequestError("background", "needs `store: true`: the response is read when it has ended")
    if draft.is_sent and scope.run is None:
        responses.check_background(owner_of(scope.receipt.owner, scope.receipt.key))
        draft.background = request
        if draft.compaction is not None:
            draft.payload = draft.compaction.given  # it is compacted when it is handled in the background


async def _continue(
    scope: RequestScope, draft: Draft, responses: StoredResponses, request: StoredRequest, *, is_background: bool
) -> None:
    """Put the whole conversation into the input. The draft gets the turn by which the reply is stored."""
    receipt, incoming, limit = scope.receipt, draft.request, draft.loaded.config.server.limits.request_body
    owner, items = owner_of(receipt.owner, receipt.key), 0
    if request.parent is not None:
        before, size = await responses.history.of_request(owner, request, limit)
        items, draft.payload = len(before), with_history(draft.payload, before)
        check_outputs(draft.payload, items)
        job = partial(_written, draft.payload, limit)
        draft.body = await compute(size + len(draft.body), job, receipt.owner, incoming)
    fields = request.reply_fields(store=request.store)
    # The length first: most requests carry nothing, and a key that is missing costs an exception.
    if len(incoming) > 0 and (continued := incoming.get(CONTINUED)) is not None:
        fields["previous_response_id"] = continued.previous
        given = draft.payload["input"]
        items = len(given) - continued.own
        request = await responses.history.below(owner, request.after(continued.previous, given[items:])) or request
    # Without the receipt, which would be in a reference cycle.
    keep = partial(responses.keep, owner, receipt.request_id, receipt.created, request) if request.store else None
    if is_background:
        fields["background"] = True
    draft.turn = StoredTurn(StoredReply(fields, keep), request, items)


def _written(payload: Json, limit: int) -> bytes:
    """Return a request as at most `limit` bytes. Raises LimitExceeded."""
    body = json_dumps(payload)
    if len(body) > limit:
        raise LimitExceeded("request_body", limit, upstream=False)
    return body
