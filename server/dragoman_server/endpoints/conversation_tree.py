"""`GET /v1/dragoman/conversations/{id}/tree`: the lineage of a conversation, with tokens and losses, without texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from dragoman import ClientRequestError, DragomanError, FailureKind, json_dumps
from dragoman.threads import (
    Node,
    as_mermaid,
    conversation_not_found,
    is_conversation,
    is_response_id,
    lineage_of,
    response_not_found,
)
from dragoman_server.endpoints.stored_responses import respond
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.stored_responses import StoredResponses, owner_named, owner_of

JSON, MERMAID = "json", "mermaid"
_CONTENT_TYPES = {JSON: "application/json", MERMAID: "text/plain"}


class ConversationTree:
    """The endpoint. A client sees its own conversations; an admin those of the key that `?key=NAME` names, too."""

    def __init__(self, gateway: Gateway, stored: StoredResponses) -> None:
        self._gateway = gateway
        self._stored = stored

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return the tree of a conversation, or of a response's conversation: `?format=json` or `mermaid`."""
        form = request.query.get("format", JSON)

        async def make(owner: str, _: str) -> bytes:
            if form not in _CONTENT_TYPES:
                raise ClientRequestError("format", f"expected json or mermaid; got {form[:100]!a}")
            node_id = request.match_info["id"]
            of_conversation = is_conversation(node_id)
            found = of_conversation or is_response_id(node_id)
            nodes = await self._stored.tree(owner, node_id) if found else []
            if not nodes:
                raise conversation_not_found(node_id) if of_conversation else response_not_found(node_id)
            # In a thread, as all its responses are parsed.
            return await asyncio.to_thread(_written, nodes, form)

        return await respond(
            self._gateway, request, make, owner=_owner, content_type=_CONTENT_TYPES.get(form, _CONTENT_TYPES[JSON])
        )


def _written(nodes: Sequence[Node], form: str) -> bytes:
    tree = lineage_of(nodes)
    return json_dumps(tree) if form == JSON else as_mermaid(tree).encode()


def _owner(request: web.Request, caller: Caller) -> str:
    """Return whose conversations are read. Raises DragomanError (403)."""
    name = request.query.get("key")
    if name is None:
        return owner_of(caller.owner, caller.key)
    if not (caller.owner and caller.admin):
        message = "`key` needs an admin's key"
        raise DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="admin_required"))
    return owner_named(name)
