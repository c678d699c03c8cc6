"""The items of stored responses and conversations, for requests that continue them and for clients that read them.

Sizes and the structure are read first, then as much of the contents as is needed, and little of it at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from dragoman import ClientRequestError
from dragoman.errors import LimitExceeded
from dragoman.threads import (
    ConversationHead,
    Node,
    Outline,
    Section,
    StoredItems,
    StoredRequest,
    StoreError,
    conversation_not_found,
    is_conversation,
    previous_not_found,
    read_head,
    response_not_found,
    sections_of,
)
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.store_health import unavailable

LONG_READ = 1024**2
LONG_READS = 2
"""Reads of more than `LONG_READ` bytes at a time, one for each owner: each needs several times as much memory."""
READ_MAX = 256 * 1024**2
"""Bytes of stored responses that are read for one request. A history has less: replies repeat settings of requests."""


class NodeReader(Protocol):
    """Reads nodes of stored conversations. Its methods raise DragomanError (503)."""

    async def path(self, owner: str, response_id: str) -> list[Outline]:
        """Return the responses up to this one; none if one of them is not stored."""
        ...

    async def members(self, owner: str, conversation_id: str) -> list[Outline]:
        """Return the nodes of a conversation without its branches."""
        ...

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these nodes, without those that were deleted meanwhile."""
        ...


class StoredHistory:
    """The items of `stored`. A conversation has at most `max_chain` responses and changes."""

    def __init__(self, stored: NodeReader, max_chain: int) -> None:
        self._stored = stored
        self._max_chain = max_chain
        self._long_reads = asyncio.Semaphore(LONG_READS)
        self._long_of_owner: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock for each owner: its further reads wait here, and not in the places of others."""

    async def of_request(self, owner: str, request: StoredRequest, limit: int) -> tuple[list[Any], int]:
        """Return the items that a request continues, and the bytes of what was read for them.

        Raises LimitExceeded if the JSON of the items has more than `limit` bytes, and other DragomanErrors.
        """
        path: Sequence[Outline]
        if request.conversation is not None:
            path = await self.members(owner, request.conversation)
            sections = sections_of(path)
        else:
            assert request.previous is not None
            path = await self._stored.path(owner, request.previous)
            if not path:
                raise previous_not_found(request.previous)
            sections = await self._sections(owner, path)
        if request.store:
            self.check_length(len(path), request.field)
        items = self.items(owner, sections)
        try:
            check_size(items, limit)
            async with self.reading(owner, items.size):
                return await items.history(limit), items.size
        except LimitExceeded as error:
            error.failure.message = (
                f"{request.field}: the conversation exceeds the limit request_body = {limit}: compact it, or begin "
                "another one"
            )
            error.failure.param = request.field
            raise

    async def below(self, owner: str, request: StoredRequest) -> StoredRequest | None:
        """Return a request if what it continues is stored: a connection also continues what is not."""
        assert request.previous is not None
        path = await self._stored.path(owner, request.previous)
        if not path:
            return None
        if request.store:
            self.check_length(len(path), request.field)
        return request

    def check_length(self, nodes: int, field: str = "") -> None:
        """Raise ClientRequestError if nothing can be added to a conversation of so many responses or changes."""
        if nodes >= self._max_chain:
            message = f"the conversation has {nodes} responses; the most are {self._max_chain}"
            raise ClientRequestError((field,) if field else (), message)

    async def members(self, owner: str, conversation_id: str) -> list[Outline]:
        """Return the changes of a conversation, oldest first. Raises DragomanError: 404 if it is not stored, or 503."""
        tree: list[Outline] = []
        if is_conversation(conversation_id):
            tree = await self._stored.members(owner, conversation_id)
        if not tree or tree[0].id != conversation_id:  # its root was deleted
            raise conversation_not_found(conversation_id)
        return tree

    async def head(self, owner: str, members: Sequence[Outline]) -> ConversationHead:
        """Return a conversation without its items. Raises DragomanError (503)."""
        async with self.reading(owner, 0):
            return await read_head(partial(self._stored.nodes, owner), members)

    async def items_before(self, owner: str, response_id: str) -> StoredItems:
        """Return the items that a response was made from. Raises DragomanError (404, 503)."""
        path = await self._stored.path(owner, response_id)
        if not path:
            raise response_not_found(response_id)
        return self.items(owner, await self._sections(owner, path, output=False))

    async def _sections(self, owner: str, path: Sequence[Outline], *, output: bool = True) -> list[Section]:
        if is_conversation(path[0].id):
            return sections_of(path, await self.members(owner, path[0].id), output=output)
        return sections_of(path, output=output)

    def items(self, owner: str, sections: Sequence[Section]) -> StoredItems:
        """Return the items of these sections."""
        return StoredItems(partial(self._stored.nodes, owner), sections, partial(compute, owner=owner))

    @asynccontextmanager
    async def reading(self, owner: str, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes may be read and parsed. Raises DragomanError (503) for a StoreError within."""
        try:
            if size <= LONG_READ:
                yield
            else:
                async with self._long_of_owner.setdefault(owner, asyncio.Lock()), self._long_reads:
                    yield
        except StoreError as error:
            raise unavailable(error) from None


def check_size(items: StoredItems, limit: int) -> None:
    """Raise LimitExceeded for items that are not read, as their responses are too long for a request of `limit`."""
    if items.size > max(READ_MAX, 8 * limit):
        raise LimitExceeded("request_body", limit, upstream=False)
