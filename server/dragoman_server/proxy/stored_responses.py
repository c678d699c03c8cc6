"""Stored responses of a gateway: requests continue them, and replies are stored before their end is sent.

An upstream gets the whole conversation as its input, whatever its dialect. A client learns that its response is stored
from the terminal event, or from the whole reply; that waits for the store, and nothing else does. A reply that cannot
be stored is sent with `store: false`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from dragoman import Dialect, DragomanError, Failure, LossCode
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import STORED_DIALECT
from dragoman.threads import MemoryStore, Node, NotStored, Outline, Store, StoredRequest, StoreError, new_node
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.provider import Provider
from dragoman_server.config.state_options import MEMORY, SQLITE, UPSTREAM, StateOptions
from dragoman_server.config.store_urls import POSTGRES, REDIS
from dragoman_server.observability.metric_families import RESPONSES_STORED, Totals
from dragoman_server.proxy.store_health import StoreHealth, unavailable
from dragoman_server.proxy.stored_history import StoredHistory
from dragoman_server.routing.router import RoutedTarget

log = logging.getLogger("dragoman")
T = TypeVar("T")
EXPIRE_EVERY = 3600.0
"""Seconds between two deletions of what has expired."""
RETRY_EVERY = 1.0
"""Seconds between two attempts to reach a store that failed."""
_MEMBERS_DEPTH = 2


class StoredResponses:
    """The stored responses of one gateway, with the gateway's counters `totals`. `clock` returns Unix seconds."""

    def __init__(self, options: StateOptions, totals: Totals, clock: Callable[[], float]) -> None:
        self._options = options
        self._totals = totals
        self._store = create_thread_store(options, clock)
        self._health = StoreHealth(totals)
        self._expiry: asyncio.Task[None] | None = None
        self.history = StoredHistory(self, options.max_chain)
        self.check_background: Callable[[str], None] | None = None
        """Raises DragomanError if no further response of an owner may run in the background; None if none may."""
        self.lacks_runs = options.most_background < options.background
        """True if none may, as the store has no place for their events."""

    @property
    def unavailable(self) -> bool:
        """True while the store does not answer, or cannot write."""
        return self._health.failing.is_set()

    async def open(self) -> None:
        """Open the store. Raises ConfigError if it cannot be used."""
        try:
            if self._options.kind == SQLITE and not self._options.path:
                Path(self._options.file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._store.open()
        except (OSError, StoreError) as error:
            raise ConfigError("state", str(error)) from None
        self.begin()

    def begin(self) -> None:
        """Use the open store, and delete now and then what has expired. That in memory is always open."""
        self._health.open()
        self._expiry = asyncio.get_running_loop().create_task(self._expire())

    async def close(self) -> None:
        """Write what is pending, and close the store."""
        if self._expiry is not None:
            self._expiry.cancel()
            await asyncio.gather(self._expiry, return_exceptions=True)
        await self._store.close()

    def serves(self, client: Dialect, target: RoutedTarget) -> bool:
        """True if responses are stored here, not by the upstream, for a client and a target."""
        if client is not STORED_DIALECT:
            return False
        if target.plan is None:
            return _serves(target.provider)
        return any([_serves(candidate.provider) for candidate in target.plan.candidates])

    async def path(self, owner: str, response_id: str) -> list[Outline]:
        """Return the responses up to this one; none if one of them is not stored. Raises DragomanError (503)."""
        return await self._read("path", lambda: self._store.path_outline(owner, response_id)) or []

    async def tree(self, owner: str, node_id: str) -> list[Outline]:
        """Return all nodes of the conversation of a node, oldest first. Raises DragomanError (503)."""
        return await self._read("tree", lambda: self._store.tree_outline(owner, node_id))

    async def members(self, owner: str, conversation_id: str) -> list[Outline]:
        """Return the nodes of a conversation without its branches, which are deeper. Raises DragomanError (503)."""
        return await self._read("tree", lambda: self._store.tree_outline(owner, conversation_id, _MEMBERS_DEPTH))

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these nodes, without those that were deleted meanwhile. Raises DragomanError (503)."""
        return await self._read("get", lambda: self._store.nodes(owner, outlines))

    async def change(self, node: Node) -> None:
        """Store a conversation, or a change of one. Raises DragomanError: 400 if there is no room for it, or 503."""
        try:
            await self._health.call("put", lambda: self._store.put(node))
        except NotStored as error:
            message = f"the conversation cannot be changed: {error}"
            raise DragomanError(
                Failure(FailureKind.INVALID_REQUEST, message, 400, origin=FailureOrigin.PROXY)
            ) from None
        except StoreError as error:
            raise unavailable(error) from None

    async def get(self, owner: str, response_id: str) -> Node | None:
        """Return a response, or None if it is not stored. Raises DragomanError (503)."""
        return await self._read("get", lambda: self._store.get(owner, response_id))

    async def delete(self, owner: str, response_id: str) -> bool:
        """Delete a response. Return False if it is not stored. Raises DragomanError (503)."""
        return await self._read("delete", lambda: self._store.delete(owner, response_id))

    async def _read(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._health.call(operation, call)
        except StoreError as error:
            raise unavailable(error) from None

    def keep(
        self,
        owner: str,
        request_id: str,
        created: int,
        request: StoredRequest,
        reply: bytes,
        losses: Mapping[LossCode, int],
    ) -> Awaitable[bool]:
        """Store a reply before its end is sent. The result is whether the store has it."""
        work = self._put(new_node(owner, request_id, created, request, reply, losses), request_id)
        # A task: the end of a stream is not sent from one, and could not wait with a timeout. Memory does not wait.
        return work if self._options.kind == MEMORY else asyncio.get_running_loop().create_task(work)

    async def keep_state(self, owner: str, request_id: str, created: int, request: StoredRequest, state: bytes) -> bool:
        """Store the last state of a response, unless it is stored. Return whether the store has it."""
        node = new_node(owner, request_id, created, request, state, {})
        return await self.keep_node(node, request_id) is not None

    async def keep_node(self, node: Node, request_id: str) -> Node | None:
        """Store a response, unless it is stored. Return the one that the store has; None if that failed."""
        with suppress(DragomanError):
            found = await self.get(node.owner, node.id)
            if found is not None or await self._put(node, request_id):
                return found or node
        return None

    async def _put(self, node: Node, request_id: str) -> bool:
        """Store a response. Return False if that failed."""
        try:
            await self._health.call("put", lambda: self._store.put(node))
        except NotStored as error:
            log.warning("%s the response was not stored: %s", request_id, error)
            result = "rejected"
        except StoreError as error:
            log.error("%s the response was not stored: %s", request_id, error)
            result = "failed"
        else:
            result = "stored"
        self._totals.add(RESPONSES_STORED, (result,))
        return result == "stored"

    async def _expire(self) -> None:
        """Delete what has expired, now and then, and soon again if the store failed: to find out if it answers."""
        while True:
            with suppress(StoreError):
                if removed := await self._health.probe("expire", self._store.expire):
                    log.info("%d stored responses have expired", removed)
            with suppress(TimeoutError):
                async with asyncio.timeout(EXPIRE_EVERY):
                    await self._health.failing.wait()
            await asyncio.sleep(RETRY_EVERY)


def _serves(provider: Provider) -> bool:
    """True if the responses of a provider are stored here."""
    return provider.dialect is not STORED_DIALECT or provider.state != UPSTREAM


def create_thread_store(options: StateOptions, clock: Callable[[], float]) -> Store:
    """Return the store of these options, which is not open yet."""
    if options.kind == MEMORY:
        return MemoryStore(options.limits(), clock)
    # Imported here: most gateways need none of these.
    from dragoman.threads import NodeCipher

    codec = NodeCipher(options.encryption_key.reveal()) if options.encryption_key is not None else None
    if options.kind == REDIS:
        from dragoman.threads import RedisStore

        # With the clock of Redis, which all gateways share.
        limits, prefix = options.limits(), options.prefix
        return RedisStore(options.url, limits, prefix=prefix, codec=codec, timeout=options.timeout, setting="state.url")
    if options.kind == POSTGRES:
        from dragoman.threads import PostgresStore

        # With the clock of the server, as above.
        limits, schema = options.limits(), options.prefix
        return PostgresStore(
            options.url, limits, schema=schema, codec=codec, timeout=options.timeout, setting="state.url"
        )
    from dragoman.threads import SqliteStore

    return SqliteStore(options.file, options.limits(), codec=codec, timeout=options.timeout, clock=clock)
