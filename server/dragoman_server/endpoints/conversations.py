"""`/v1/conversations`: creates, reads, changes and deletes conversations and their items."""

from __future__ import annotations

from aiohttp import web

from dragoman import Json, json_dumps, parse_body
from dragoman.threads import (
    Conversation,
    ItemPage,
    added_items,
    change_id,
    conversation_id,
    conversation_node,
    conversation_not_found,
    deleted_conversation,
    deleted_item,
    is_conversation,
    new_metadata,
    page_of,
)
from dragoman_server.endpoints.stored_responses import respond
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.stored_responses import StoredResponses


class ConversationEndpoints:
    """The endpoints of one gateway. A client sees its own conversations only; others are a 404 for it."""

    def __init__(self, gateway: Gateway, stored: StoredResponses) -> None:
        self._gateway = gateway
        self._stored = stored

    async def create(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations`: create a conversation, with items and metadata."""

        async def make(owner: str, request_id: str) -> bytes:
            node = conversation_node(owner, conversation_id(request_id), self._now(), await self._body(request))
            await self._stored.change(node)
            return json_dumps(Conversation([node]).as_json())

        return await respond(self._gateway, request, make)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}`: return a conversation, without its items."""

        async def make(owner: str, _: str) -> bytes:
            return json_dumps((await self._conversation(owner, request)).as_json())

        return await respond(self._gateway, request, make)

    async def update(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations/{id}`: replace the metadata."""

        async def make(owner: str, request_id: str) -> bytes:
            conversation = await self._conversation(owner, request)
            change = new_metadata(owner, conversation, *self._change(request_id), await self._body(request))
            await self._stored.change(change)
            return json_dumps(conversation.after(change).as_json())

        return await respond(self._gateway, request, make)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """`DELETE /v1/conversations/{id}`: delete a conversation. Its responses stay, as in the API."""

        async def make(owner: str, _: str) -> bytes:
            node_id = request.match_info["id"]
            if not is_conversation(node_id) or not await self._stored.delete(owner, node_id):
                raise conversation_not_found(node_id)
            return json_dumps(deleted_conversation(node_id))

        return await respond(self._gateway, request, make)

    async def list_items(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}/items`: return a page of the items."""

        async def make(owner: str, _: str) -> bytes:
            page = ItemPage.read(request.query)
            return json_dumps(page_of((await self._conversation(owner, request)).shown(), page))

        return await respond(self._gateway, request, make)

    async def add_items(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations/{id}/items`: add items, and return these."""

        async def make(owner: str, request_id: str) -> bytes:
            conversation = await self._conversation(owner, request)
            change = added_items(owner, conversation, *self._change(request_id), await self._body(request))
            await self._stored.change(change)
            before = len(conversation.shown())
            return json_dumps(page_of(conversation.after(change).shown()[before:], ItemPage(order="asc")))

        return await respond(self._gateway, request, make)

    async def get_item(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}/items/{item_id}`: return an item."""

        async def make(owner: str, _: str) -> bytes:
            return json_dumps((await self._conversation(owner, request)).item(request.match_info["item_id"]))

        return await respond(self._gateway, request, make)

    async def delete_item(self, request: web.Request) -> web.StreamResponse:
        """`DELETE /v1/conversations/{id}/items/{item_id}`: delete an item, and return the conversation."""

        async def make(owner: str, request_id: str) -> bytes:
            conversation, item_id = await self._conversation(owner, request), request.match_info["item_id"]
            conversation.item(item_id)  # raises a 404
            change = deleted_item(owner, conversation, *self._change(request_id), item_id)
            await self._stored.change(change)
            return json_dumps(conversation.as_json())

        return await respond(self._gateway, request, make)

    def mount(self, app: web.Application, prefix: str) -> None:
        """Add the endpoints below `prefix`."""
        one = f"{prefix}/v1/conversations/{{id}}"
        app.router.add_post(f"{prefix}/v1/conversations", self.create)
        app.router.add_get(one, self.get, allow_head=False)
        app.router.add_post(one, self.update)
        app.router.add_delete(one, self.delete)
        app.router.add_get(f"{one}/items", self.list_items, allow_head=False)
        app.router.add_post(f"{one}/items", self.add_items)
        app.router.add_get(f"{one}/items/{{item_id}}", self.get_item, allow_head=False)
        app.router.add_delete(f"{one}/items/{{item_id}}", self.delete_item)

    async def _conversation(self, owner: str, request: web.Request) -> Conversation:
        return await self._stored.conversation(owner, request.match_info["id"])

    async def _body(self, request: web.Request) -> Json:
        body = await self._gateway.bodies.read(request)
        return parse_body(body, self._gateway.config.server.limits) if body else {}

    def _change(self, request_id: str) -> tuple[str, int]:
        """Return the id and the time of a change."""
        return change_id(request_id), self._now()

    def _now(self) -> int:
        return int(self._gateway.now())
