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
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from aiohttp import web

from dragoman import ClientRequestError, Dialect, DragomanError, Failure, LossCode
from dragoman.errors import FailureKind, FailureOrigin, LimitExceeded
from dragoman.gateway import StoredReply
from dragoman.threads import (
    MemoryStore,
    Node,
    NotStored,
    Outline,
    Store,
    StoredRequest,
    StoreError,
    check_outputs,
    new_node,
    references,
    relocate,
    with_history,
)
from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.config.provider import Provider
from dragoman_server.config.state_options import MEMORY, REDIS, SQLITE, UPSTREAM, StateOptions
from dragoman_server.config.toml_reader import ConfigError
from dragoman_server.observability.metric_families import RESPONSES_STORED, Totals
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.long_bodies import LONG_BODY, compute
from dragoman_server.proxy.resolve_request import CONTINUED, RunInBackground
from dragoman_server.proxy.store_health import StoreHealth, unavailable
from dragoman_server.proxy.stored_history import StoredHistory
from dragoman_server.routing.router import Target

log = logging.getLogger("dragoman")
T = TypeVar("T")
EXPIRE_EVERY = 3600.0
"""Seconds between two deletions of what has expired."""
RETRY_EVERY = 1.0
"""Seconds between two attempts to reach a store that failed."""
_MEMBERS_DEPTH = 2


class StoredTurn(NamedTuple):
    """The use of the store by one `request`. `items` is the number of input items before its own."""

    reply: StoredReply
    request: StoredRequest
    items: int

    def relocate(self, error: ClientRequestError) -> None:
        """Let an error name a field of the client's own request."""
        if self.request.parent is not None:
            relocate(error, self.request, self.items)


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

    def serves(self, client: Dialect, target: Target) -> bool:
        """True if responses are stored here, not by the upstream, for a client and a target."""
        if client is not Dialect.RESPONSES:
            return False
        if target.plan is None:
            return _serves(target.provider)
        return any(_serves(candidate.provider) for candidate in target.plan.candidates)

    async def prepare(
        self, incoming: web.Request, receipt: Receipt, payload: Json, body: bytes, limit: int
    ) -> tuple[Json, bytes]:
        """Return the request `incoming` with the whole conversation as its input, as an object and as bytes.

        It has that already if it is continued on a connection (`CONTINUED`). The receipt gets the `turn` by which the
        reply is stored. At most `limit` bytes are returned. Raises DragomanError.
        """
        if places := references(payload):
            from dragoman_server.proxy.item_references import with_stored_items  # imported here: few clients send any

            owner = owner_of(receipt.owner, receipt.key)
            payload = await with_stored_items(self, owner, payload, places, limit)
            body = self._written(payload, limit)
        if len(body) <= LONG_BODY:
            request = StoredRequest.read(payload)
        else:
            request = await compute(len(body), partial(StoredRequest.read, payload), receipt.owner, incoming)
        background = payload.get("background") is True
        if background:
            self._check_background(incoming, receipt, payload, request)
            payload = {key: value for key, value in payload.items() if key != "background"}
            job = partial(self._written, payload, limit)
            body = await compute(len(body), job, receipt.owner, incoming)
        if request is None:
            return payload, body
        owner, items = owner_of(receipt.owner, receipt.key), 0
        if request.parent is not None:
            before, size = await self.history.of_request(owner, request, limit)
            items, payload = len(before), with_history(payload, before)
            check_outputs(payload, items)
            job = partial(self._written, payload, limit)
            body = await compute(size + len(body), job, receipt.owner, incoming)
        fields = request.reply_fields(store=request.store)
        # The length first: most requests carry nothing, and a key that is missing costs an exception.
        if len(incoming) > 0 and (continued := incoming.get(CONTINUED)) is not None:
            fields["previous_response_id"] = continued.previous
            given = payload["input"]
            items = len(given) - continued.own
            request = await self.history.below(owner, request.after(continued.previous, given[items:])) or request
        # Without the receipt, which would be in a reference cycle.
        keep = partial(self._keep, owner, receipt.request_id, receipt.created, request) if request.store else None
        if background:
            fields["background"] = True
        reply = StoredReply(fields, keep)
        receipt.turn = StoredTurn(reply, request, items)
        return payload, body

    @staticmethod
    def _written(payload: Json, limit: int) -> bytes:
        body = json_dumps(payload)
        if len(body) > limit:
            raise LimitExceeded("request_body", limit, upstream=False)
        return body

    def _check_background(
        self, incoming: web.Request, receipt: Receipt, payload: Json, request: StoredRequest | None
    ) -> None:
        """Raise RunInBackground for a request of a client, and DragomanError for one that cannot run there."""
        if self.check_background is None:
            message = "responses do not run in the background of this gateway; use `stream`"
            raise ClientRequestError("background", message)
        if request is None or not request.store:
            raise ClientRequestError("background", "needs `store: true`: the response is read when it has ended")
        if receipt.background is None and receipt.metrics is not None:  # not for an explanation
            self.check_background(owner_of(receipt.owner, receipt.key))
            raise RunInBackground(incoming, payload, request)

    # --- the store ---------------------------------------------------------------------------------------------------

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
        """Delete a response. Returns False if it is not stored. Raises DragomanError (503)."""
        return await self._read("delete", lambda: self._store.delete(owner, response_id))

    async def _read(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._health.call(operation, call)
        except StoreError as error:
            raise unavailable(error) from None

    def _keep(
        self,
        owner: str,
        request_id: str,
        created: int,
        request: StoredRequest,
        reply: bytes,
        losses: Mapping[LossCode, int],
    ) -> Awaitable[bool]:
        work = self._put(new_node(owner, request_id, created, request, reply, losses), request_id)
        # A task: the end of a stream is not sent from one, and could not wait with a timeout. Memory does not wait.
        return work if self._options.kind == MEMORY else asyncio.get_running_loop().create_task(work)

    async def keep_state(self, owner: str, request_id: str, created: int, request: StoredRequest, state: bytes) -> bool:
        """Store the last state of a response, unless it is stored. Returns whether the store has it."""
        node = new_node(owner, request_id, created, request, state, {})
        with suppress(DragomanError):
            return await self.get(owner, node.id) is not None or await self._put(node, request_id)
        return False

    async def _put(self, node: Node, request_id: str) -> bool:
        """Store a response. Returns False if that failed."""
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
    return provider.dialect is not Dialect.RESPONSES or provider.state != UPSTREAM


def owner_of(owner: bytes, key: KeyRecord | None) -> str:
    """Return whose responses a client sees: those of its key's name, so that a key can be replaced.

    A key without a name, and a user of the hook `authorize`, are known by their digest; `owner` is the digest. Without
    keys, all clients share their responses.
    """
    if key is not None:
        return owner_named(key.name)
    # A digest of the digest: what is in the file must not help to find a key.
    return f"digest:{sha256(b'owner of responses' + owner).hexdigest()[:32]}" if owner else ""


def owner_named(name: str) -> str:
    """Return the owner of the responses of a named key."""
    return f"key:{name}"


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
        return RedisStore(options.url, limits, prefix=prefix, codec=codec, timeout=options.timeout)
    from dragoman.threads import SqliteStore

    return SqliteStore(options.file, options.limits(), codec=codec, timeout=options.timeout, clock=clock)
