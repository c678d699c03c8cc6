"""Compaction of conversations for upstreams that have none: of a request to compact, or before a reply (mapping §8.3).

A request to compact is an exchange like any other: the conversation is replaced by a request for its summary, and the
text of the reply becomes the `compaction` item. Before a reply, the gateway sends such a request to itself, so that it
is routed, limited, counted and logged as those of clients are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiohttp import web
from multidict import CIMultiDict

from dragoman import ClientRequestError, Dialect, LossCode
from dragoman.aio import with_body
from dragoman.gateway import STORED_DIALECT, StoredReply, conversation_digest
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.compaction_options import SHARE
from dragoman_server.config.provider import Provider
from dragoman_server.config.state_options import UPSTREAM, StateOptions
from dragoman_server.draft import CompactionStep, Draft, StoredTurn
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_keys import COMPACT, CONTINUED
from dragoman_server.receipt import Receipt
from dragoman_server.routing.router import RoutedTarget

Row = tuple[LossCode, tuple[str | int, ...], str]
"""A loss: its code, the path of the item, and what was done."""

if TYPE_CHECKING:
    from dragoman.threads import Compaction, HistoryCipher

log = logging.getLogger("dragoman")
Answer = Callable[[web.Request, Dialect], Coroutine[Any, Any, web.StreamResponse]]
"""Handles a request."""
_INTERNAL: Final = web.RequestKey("dragoman.compact.internal", bool)
"""Set for requests of the gateway to itself."""
_TRIGGER: Final = "compaction_trigger"
_MANAGEMENT: Final = "context_management"
_DROPPED: Final = ("content-length", "content-encoding", "transfer-encoding", "expect", "connection")
"""Headers about a body that has been read, and about its connection."""
PAUSE: Final = 60.0
"""Seconds after a summary that failed, for which none is requested before other replies of its conversation."""
_CONVERSATIONS: Final = 1024
"""Most conversations whose failures are kept, as clients choose their number."""


class _Request(NamedTuple):
    """A request whose conversation is to be compacted before its reply. `size` is the number of bytes of its JSON."""

    receipt: Receipt
    draft: Draft
    size: int


class Compactions:
    """The compaction of one gateway. `answer` handles the gateway's requests to itself."""

    def __init__(self, options: StateOptions, answer: Answer) -> None:
        self._options = options.compaction
        self._answer = answer
        self._cipher: HistoryCipher | None = None
        if options.encryption_key is not None:
            from dragoman.threads import HistoryCipher  # 0.1 MB of memory, and the package cryptography

            self._cipher = HistoryCipher(options.encryption_key.reveal())
        self.encrypts = self._cipher is not None
        """True if what clients hold is encrypted, and must be decrypted first."""
        self._failed: dict[tuple[str, bytes], float] = {}
        """The times of the event loop at which the last summary failed, by the request's model and its conversation.

        Not by the model alone: a summary may fail by the limits of its client's key, or by what it is made of.
        """

    def step(
        self, incoming: web.Request, payload: Json, target: RoutedTarget, *, stores: bool
    ) -> CompactionStep | None:
        """Return what is to be done with a request of a Responses client, or None for nothing.

        `stores` is True if the gateway stores responses. Raises ClientRequestError.
        """
        # The length first: most requests carry nothing, and a key that is missing costs an exception.
        whole = len(incoming) > 0 and incoming.get(COMPACT, False)
        given: Any = payload.get("input")
        last = given[-1] if type(given) is list and given else None
        triggered = type(last) is dict and last.get("type") == _TRIGGER
        managed = payload.get(_MANAGEMENT) is not None
        gated = self._options.share > 0 and stores and _continues(payload) and CONTINUED not in incoming
        if not (whole or triggered or managed or gated):
            return None
        if not incoming.get(_INTERNAL, False) and _is_native(target, stores=stores):
            return None
        left = {key: value for key, value in payload.items() if key != _MANAGEMENT}
        if triggered:
            left["input"] = given[:-1]
        if whole:
            return CompactionStep({**left, "stream": False, "store": False}, payload, whole=True)
        if triggered:
            return CompactionStep(left, payload)
        window = self._window(payload.get("model"), target)
        if managed and (threshold := _threshold(payload[_MANAGEMENT], int(window * (self._options.share or SHARE)))):
            return CompactionStep(left, payload, threshold)
        if gated and window:
            return CompactionStep(payload, payload, int(window * self._options.share), gate=True)
        return None

    def decrypt(self, receipt: Receipt, draft: Draft) -> None:
        """Make the compacted histories of a request readable."""
        assert self._cipher is not None
        readable = self._cipher.decrypted(draft.payload, _owner(receipt))
        if readable is not draft.payload:
            draft.payload, draft.body = readable, json_dumps(readable)

    def _held(self, wrapped: str, owner: str) -> str:
        """Return a history as clients hold it."""
        return wrapped if self._cipher is None else self._cipher.encrypt(wrapped, owner)

    def _window(self, model: Any, target: RoutedTarget) -> int:
        """Return the smallest known context window of the providers that a model can be at; 0 for none."""
        windows = [self._options.window(str(model), provider) for provider in _providers(target)]
        return min(filter(None, windows), default=0)

    async def run(self, step: CompactionStep, receipt: Receipt, draft: Draft) -> None:
        """Replace the request by the one that is sent in its place.

        Its payload is that of the step, with the whole conversation as its input; its body is the client's, or that of
        the payload if it was changed. Raises DragomanError.
        """
        if not step.threshold:
            if self._options.model:
                draft.target = draft.loaded.router.resolve(self._options.model, STORED_DIALECT)
            await self._ask_for_summary(step, receipt, draft)
            return
        if not step.gate:
            draft.body = json_dumps(draft.payload)
        # A token is a byte at least. An explanation calls no model, and an invalid request is rejected later.
        size, given = len(draft.body), draft.payload.get("input")
        if size >= step.threshold and draft.is_sent and type(given) in (str, list):
            request = _Request(receipt, draft, size)
            changed = await (self._gate if step.gate else self._manage)(request, step.threshold)
            if changed is not None:
                draft.payload, draft.body = changed, json_dumps(changed)

    async def _ask_for_summary(self, step: CompactionStep, receipt: Receipt, draft: Draft) -> None:
        """Request the summary of a conversation, and let its reply be that of a request to compact."""
        from dragoman.threads import compacted_response, plan  # 0.8 MB of memory, as below

        payload = draft.payload
        model = self._options.model or payload["model"]
        room = int(self._window(model, draft.target) * SHARE)
        compaction = await compute(len(draft.body), lambda: plan(_checked(draft), room=room), receipt.owner)
        reply = _reply_of(draft)
        reply.evicted, reply.stream = compaction.rows, payload.get("stream") is True
        wrap, owner = compaction.wrapped_window if step.whole else compaction.wrapped, _owner(receipt)
        reply.summarised = lambda summary: self._held(wrap(summary, model), owner)
        if step.whole:
            reply.shaped = partial(compacted_response, compaction.window())
        draft.payload = compaction.request(model)
        draft.body = json_dumps(draft.payload)

    async def _manage(self, request: _Request, threshold: int) -> Json | None:
        """Compact all of a request's input, and let its reply begin with the item. Return None if nothing is done."""
        from dragoman.threads import own_items

        payload = request.draft.payload
        items = own_items(payload)
        wrapped, rows = await self._compacted(request, items, items, threshold)
        if rows:
            reply = _reply_of(request.draft)
            reply.compaction = self._held(wrapped, _owner(request.receipt)) if wrapped else ""
            reply.evicted = rows
        return {**payload, "input": [_item(wrapped)]} if wrapped else None

    async def _gate(self, request: _Request, threshold: int) -> Json | None:
        """Compact what a request continues, and store the item before its own input. Return None if nothing is done.

        A response that is not stored would be compacted again with each request that continues the same one.
        """
        turn, given = request.draft.turn, request.draft.payload["input"]
        if turn is None or turn.request is None or turn.reply.keep is None:
            return None
        before, own = given[: turn.items], given[turn.items :]
        wrapped, turn.reply.evicted = await self._compacted(request, before, given, threshold)
        if not wrapped:
            return None
        turn.request.begin_with(_item(self._held(wrapped, _owner(request.receipt))))
        request.draft.turn = turn._replace(items=1)
        return {**request.draft.payload, "input": [_item(wrapped), *own]}

    async def _compacted(
        self, request: _Request, items: list[Any], whole: list[Any], threshold: int
    ) -> tuple[str, Sequence[Row]]:
        """Return the wrapped history of `items`, and what was lost; empty if nothing is done.

        `whole` is the input of the request, of which the items are the beginning.
        """
        job = partial(_planned, request, items, whole, threshold)
        total, compaction, wrapped = await compute(request.size, job, request.receipt.owner, request.draft.request)
        if total < threshold or wrapped:
            return wrapped, compaction.rows if compaction is not None else ()
        if compaction is None:
            done = f"not compacted: about {total} tokens, of which too few may go"
        elif wrapped := await self._summarised(request, items):
            return wrapped, compaction.rows
        else:
            done = "not compacted: there is no summary"
        return "", ((LossCode.CONTEXT_MANAGEMENT, ("input",), done),)

    async def _summarised(self, request: _Request, items: list[Any]) -> str:
        """Return the wrapped history of these items with a summary; empty if that failed."""
        incoming, receipt, payload = request.draft.request, request.receipt, request.draft.payload
        model, now = str(payload["model"]), asyncio.get_running_loop().time()
        place = model, conversation_digest(STORED_DIALECT, payload, receipt.owner)
        if now - self._failed.get(place, -PAUSE) < PAUSE:
            return ""
        asked = {"model": model, "input": [*items, {"type": _TRIGGER}], "store": False}
        headers = CIMultiDict(incoming.headers)
        for name in _DROPPED:
            headers.popall(name, None)
        copy = with_body(incoming, headers, json_dumps(asked))
        copy[_INTERNAL] = True
        response = await self._answer(copy, STORED_DIALECT)
        reply = response.body if isinstance(response, web.Response) else None
        if response.status != 200 or type(reply) is not bytes:
            log.warning("%s the conversation was not compacted: %d", receipt.request_id, response.status)
            if len(self._failed) >= _CONVERSATIONS:
                self._failed.clear()
            self._failed[place] = now
            return ""
        self._failed.pop(place, None)
        held: str = json_loads(reply)["output"][0]["encrypted_content"]
        return held if self._cipher is None else self._cipher.decrypt(held, _owner(receipt)) or ""


def _planned(
    request: _Request, items: list[Any], whole: list[Any], threshold: int
) -> tuple[int, Compaction | None, str]:
    """Return the tokens of a request, how its items are compacted, and the wrapped history if that needs no summary.

    There is no compaction if the threshold is not reached, or if too little may go. Raises ClientRequestError.
    """
    from dragoman.threads import evict, input_tokens, is_worth, plan

    payload = request.draft.payload
    total = input_tokens({**payload, "input": whole})
    if total < threshold:
        return total, None, ""
    _checked(request.draft)
    compaction = evict(items, total, threshold)
    if compaction is not None:
        return total, compaction, compaction.wrapped("", str(payload["model"]))
    compaction = plan(items)
    return total, compaction if is_worth(compaction, items, threshold) else None, ""


def _checked(draft: Draft) -> list[Any]:
    """Return the items of a request. Raises ClientRequestError if they cannot be translated."""
    from dragoman.threads import checked_items

    try:
        return checked_items(draft.payload, draft.loaded.config.server.limits)
    except ClientRequestError as error:
        if draft.turn is not None:
            draft.turn.relocate(error)
        raise


def _reply_of(draft: Draft) -> StoredReply:
    """Return the parameters of the reply, which the draft has from now on. Its input was checked, and is replaced."""
    draft.turn = turn = StoredTurn(draft.turn.reply if draft.turn is not None else StoredReply({}))
    return turn.reply


def _owner(receipt: Receipt) -> str:
    return owner_of(receipt.owner, receipt.key)


def _item(wrapped: str) -> Json:
    return {"type": "compaction", "encrypted_content": wrapped}


def _continues(payload: Json) -> bool:
    return payload.get("previous_response_id") is not None or payload.get("conversation") is not None


def _providers(target: RoutedTarget) -> list[Provider]:
    return [candidate.provider for candidate in target.candidates]


def _is_native(target: RoutedTarget, *, stores: bool) -> bool:
    """True if each upstream that the request can be sent to compacts by itself."""
    return all(_compacts(provider, stores=stores) for provider in _providers(target))


def _compacts(provider: Provider, *, stores: bool) -> bool:
    own = provider.dialect is STORED_DIALECT and not provider.profile.rewrite
    return own and (provider.state == UPSTREAM or not stores)


def _threshold(management: Any, default: int) -> int:
    """Return the tokens from which on the conversation is to be compacted; 0 if that is not known, or not asked for."""
    if type(management) is not list or any(type(entry) is not dict for entry in management):
        raise ClientRequestError(_MANAGEMENT, "expected an array of objects")
    for index, entry in enumerate(management):
        if entry.get("type") == "compaction":
            threshold = entry.get("compact_threshold")
            if threshold is None:
                return default
            if type(threshold) is not int or threshold < 1:
                raise ClientRequestError((_MANAGEMENT, index, "compact_threshold"), "expected a number above 0")
            return threshold
    return 0
