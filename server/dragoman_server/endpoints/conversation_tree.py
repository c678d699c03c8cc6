"""`GET /v1/dragoman/conversations/{id}/tree`: the lineage of a conversation, with tokens and losses, without texts."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import FailureKind
from dragoman.threads import (
    Lineage,
    Outline,
    as_mermaid,
    batches,
    conversation_not_found,
    is_conversation,
    is_response_id,
    response_not_found,
)
from dragoman.wire import json_dumps
from dragoman_server.endpoints.stored_responses import respond
from dragoman_server.proxy.auth import Caller, owner_named, owner_of
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.stored_history import READ_MAX

JSON, MERMAID = "json", "mermaid"
NODES_MAX = 10_000
"""Most responses of a tree that are shown. No more are read than have `READ_MAX` bytes together."""
_CONTENT_TYPES = {JSON: "application/json", MERMAID: "text/plain"}


class ConversationTree:
    """The endpoint. A client sees its own conversations; an admin those of the key that `?key=NAME` names, too."""

    def __init__(self, gateway: Gateway) -> None:
        self._services = gateway.services
        assert gateway.services.responses.stored is not None
        self._stored = gateway.services.responses.stored

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return the tree of a conversation, or of a response's conversation: `?format=json` or `mermaid`."""
        form = request.query.get("format", JSON)

        async def make(owner: str, _: str) -> bytes:
            if form not in _CONTENT_TYPES:
                raise ClientRequestError("format", f"expected json or mermaid; got {form[:100]!a}")
            node_id = request.match_info["id"]
            of_conversation = is_conversation(node_id)
            found = of_conversation or is_response_id(node_id)
            tree = await self._stored.tree(owner, node_id) if found else []
            if not tree:
                raise conversation_not_found(node_id) if of_conversation else response_not_found(node_id)
            return await self._written(owner, tree, form)

        return await respond(
            self._services, request, make, owner=_owner, content_type=_CONTENT_TYPES.get(form, _CONTENT_TYPES[JSON])
        )

    async def _written(self, owner: str, tree: list[Outline], form: str) -> bytes:
        """Return a tree as text. Its responses are read and parsed in parts."""
        lineage, read = Lineage(tree), 0
        async with self._stored.history.reading(owner, sum(each.size for each in tree)):
            for batch in batches(tree[:NODES_MAX]):
                size = sum(each.size for each in batch)
                read += size
                if read > READ_MAX:
                    break
                await compute(size, partial(lineage.add, await self._stored.nodes(owner, batch)), owner)
            shown = lineage.as_json()
            return json_dumps(shown) if form == JSON else as_mermaid(shown).encode()


def _owner(request: web.Request, caller: Caller) -> str:
    """Return whose conversations are read. Raises DragomanError (403)."""
    name = request.query.get("key")
    if name is None:
        return owner_of(caller.owner, caller.key)
    if not (caller.owner and caller.admin):
        message = "`key` needs an admin's key"
        raise DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="admin_required"))
    return owner_named(name)
