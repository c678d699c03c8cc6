"""`/v1/conversations`: creates, reads, changes and deletes conversations and their items.

Conversations that an upstream keeps are created, read, changed and deleted there.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from aiohttp import web

from dragoman import DragomanError, Limits
from dragoman.errors import LimitExceeded
from dragoman.gateway import parse_body
from dragoman.threads import (
    Change,
    Conversation,
    ConversationHead,
    ItemPage,
    Outline,
    StoredItems,
    added_items,
    change_id,
    conversation_nodes,
    conversation_not_found,
    deleted_conversation,
    deleted_item,
    is_conversation,
    item_not_found,
    new_metadata,
    page_from,
    sections_of,
    shown_input,
)
from dragoman.wire import Json, json_dumps
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.issued_conversations import (
    create_at,
    find_keeper,
    forward_to_keeper,
    keeper_of,
    keeper_of_new,
)
from dragoman_server.endpoints.not_implemented import stored_objects
from dragoman_server.endpoints.stored_responses import Make, respond, respond_or_forward
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.stored_history import check_size
from dragoman_server.proxy.stored_responses import StoredResponses

_BODY: Final = web.RequestKey("dragoman.conversation_body", bytes)


class ConversationEndpoints:
    """The endpoints of one gateway. A client sees its own conversations only; others are a 404 for it.

    Without a store of the gateway's own they serve what upstreams keep.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._services = gateway.services
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By owner and id of a conversation: items are added one request after another, or all would find room."""

    @property
    def _stored(self) -> StoredResponses:
        stored = self._services.responses.stored
        assert stored is not None
        return stored

    async def _respond(self, request: web.Request, make: Make) -> web.StreamResponse:
        """Return what `make` returns, or the response of the upstream that keeps the conversation."""
        services = self._services

        async def forward(caller: Caller, provider: Provider, request_id: str) -> web.StreamResponse:
            body = await self._body(request)
            return await forward_to_keeper(services, request, caller, provider, request_id, body)

        return await respond_or_forward(services, request, make, keeper_of, find_keeper, forward)

    async def create(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations`: create a conversation, with items and metadata."""

        async def make(owner: str, request_id: str) -> bytes:
            body = await self._body(request)
            root, *added = await compute(
                len(body),
                lambda: conversation_nodes(owner, request_id, self._now(), self._payload(body)),
                owner,
                request,
            )
            await self._stored.change(root)
            for change in added:
                try:
                    await self._stored.change(change)
                except DragomanError:
                    await self._stored.delete(owner, root.id)
                    raise
            return json_dumps(Conversation([root]).as_json())

        async def elsewhere(caller: Caller, request_id: str) -> web.StreamResponse | None:
            keeper = keeper_of_new(self._services)
            if keeper is not None:
                return await create_at(self._services, request, caller, keeper, request_id, await self._body(request))
            return None if self._services.responses.stores else stored_objects(request_id, request)

        return await respond(self._services, request, make, elsewhere=elsewhere)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}`: return a conversation, without its items."""

        async def make(owner: str, _: str) -> bytes:
            return json_dumps((await self._stored.history.head(owner, await self._members(owner, request))).as_json())

        return await self._respond(request, make)

    async def update(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations/{id}`: replace the metadata."""

        async def make(owner: str, request_id: str) -> bytes:
            body = await self._body(request)
            head = _head(await self._members(owner, request, changes=True))
            payload = await compute(len(body), partial(self._payload, body), owner, request)
            await self._stored.change(new_metadata(owner, head, *self._change(request_id, Change.UPDATED), payload))
            head.metadata = payload.get("metadata") or {}
            return json_dumps(head.as_json())

        return await self._respond(request, make)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """`DELETE /v1/conversations/{id}`: delete a conversation. Its responses stay, as in the API."""

        async def make(owner: str, _: str) -> bytes:
            node_id = request.match_info["id"]
            if not is_conversation(node_id) or not await self._stored.delete(owner, node_id):
                raise conversation_not_found(node_id)
            return json_dumps(deleted_conversation(node_id))

        return await self._respond(request, make)

    async def list_items(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}/items`: return a page of the items."""

        async def make(owner: str, _: str) -> bytes:
            page = ItemPage.read(request.query)
            items = self._items(owner, await self._members(owner, request))
            async with self._stored.history.reading(owner, items.size):
                return json_dumps(await items.page(page))

        return await self._respond(request, make)

    async def add_items(self, request: web.Request) -> web.StreamResponse:
        """`POST /v1/conversations/{id}/items`: add items, and return these."""

        async def make(owner: str, request_id: str) -> bytes:
            body = await self._body(request)
            async with self._locks.setdefault((owner, request.match_info["id"]), asyncio.Lock()):
                members = await self._members(owner, request, changes=True)
                change = await compute(
                    len(body),
                    lambda: added_items(
                        owner, _head(members), *self._change(request_id, Change.ADDED), self._payload(body)
                    ),
                    owner,
                    request,
                )
                await self._check_room(owner, self._items(owner, members), len(change.input))
                await self._stored.change(change)
            shown = shown_input(change)
            return json_dumps(page_from(shown, len(shown)))

        return await self._respond(request, make)

    async def get_item(self, request: web.Request) -> web.StreamResponse:
        """`GET /v1/conversations/{id}/items/{item_id}`: return an item."""

        async def make(owner: str, _: str) -> bytes:
            return json_dumps(await self._item(owner, await self._members(owner, request), request))

        return await self._respond(request, make)

    async def delete_item(self, request: web.Request) -> web.StreamResponse:
        """`DELETE /v1/conversations/{id}/items/{item_id}`: delete an item, and return the conversation."""

        async def make(owner: str, request_id: str) -> bytes:
            members, item_id = await self._members(owner, request, changes=True), request.match_info["item_id"]
            await self._item(owner, members, request)  # raises a 404
            head = await self._stored.history.head(owner, members)
            await self._stored.change(deleted_item(owner, head, *self._change(request_id, Change.DELETED), item_id))
            return json_dumps(head.as_json())

        return await self._respond(request, make)

    async def _members(self, owner: str, request: web.Request, *, changes: bool = False) -> list[Outline]:
        """Return the members of a conversation that is to be read, or with `changes` to be changed."""
        members = await self._stored.history.members(owner, request.match_info["id"])
        if changes:
            self._stored.history.check_length(len(members))
        return members

    def _items(self, owner: str, members: list[Outline]) -> StoredItems:
        return self._stored.history.items(owner, sections_of(members))

    async def _item(self, owner: str, members: list[Outline], request: web.Request) -> Json:
        item_id, items = request.match_info["item_id"], self._items(owner, members)
        async with self._stored.history.reading(owner, items.size):
            found = await items.item(item_id)
        if found is None:
            raise item_not_found(item_id)
        return found

    async def _check_room(self, owner: str, items: StoredItems, size: int) -> None:
        """Raise LimitExceeded if a conversation and `size` bytes of items are more than a request may have."""
        limit = self._limits().request_body
        try:
            check_size(items, limit)
            async with self._stored.history.reading(owner, items.size if items.size + size > limit else 0):
                await items.check_length(limit - size)
        except LimitExceeded as error:
            error.failure.message = (
                f"items: the conversation would exceed the limit request_body = {limit}: delete some of its items, or "
                "begin another one"
            )
            error.failure.param = "items"
            raise

    async def _body(self, request: web.Request) -> bytes:
        """Return the body, also if it was read before: here first, and then at an upstream."""
        if (body := request.get(_BODY)) is None:
            body = request[_BODY] = await self._services.bodies.read(request)
        return body

    def _payload(self, body: bytes) -> Json:
        return parse_body(body, self._limits()) if body else {}

    def _limits(self) -> Limits:
        return self._services.config.server.limits

    def _change(self, request_id: str, kind: str) -> tuple[str, int]:
        """Return the id and the time of a change."""
        return change_id(request_id, kind), self._now()

    def _now(self) -> int:
        return int(self._services.now())


def _head(members: list[Outline]) -> ConversationHead:
    """Return a conversation whose metadata is not read."""
    return ConversationHead(members[0].id, members[0].created, {})
