"""Goes on with the exchange of a run that another process has begun: its upstream still generates the response."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from dragoman.aio import UpstreamResponse
from dragoman.gateway import StoredReply, parse_body
from dragoman.threads import StoredRequest, own_items
from dragoman.wire import Json, json_dumps
from dragoman_server.draft import StoredTurn
from dragoman_server.proxy.attached.attached_calls import AttachedCalls
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.handover import Handover
from dragoman_server.proxy.exchange import Exchange
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_body import ON_LOSS
from dragoman_server.proxy.request_failure import answer_failure, end_abandoned
from dragoman_server.receipt import Receipt
from dragoman_server.scope import OpenStream, RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.translate import translation_of

log = logging.getLogger("dragoman")


class AttachedExchange:
    """One exchange that goes on here.

    Args:
        services: Those of the gateway.
        data: The handover of the process that has begun it. Raises ValueError if this process cannot go on with it.
        owner: The owner of the run.
        request_id: The id of the exchange's request.
    """

    def __init__(self, services: Services, data: bytes, owner: str, request_id: str) -> None:
        self.handover = handover = Handover.read(data, services.config.server.limits.request_body)
        self._services = services
        self._calls = AttachedCalls(services)
        if self._calls.provider_of(handover) is None:
            raise ValueError(f"there is no provider {handover.provider} with `background` here")
        self._owner = owner
        self.attachment = Attachment()
        self.receipt = Receipt(
            request_id,
            handover.dialect,
            handover.created,
            model=handover.model or None,
            provider=handover.provider,
            client_profile=handover.client_profile,
        )
        self.scope = RequestScope(services, self.receipt)
        self.scope.attachment = self.attachment
        self.is_open = False
        """True once the upstream has sent the response again."""

    def stored_request(self, payload: Json) -> StoredRequest | None:
        """Return the request as it is stored with its response; None if that is not stored."""
        fields = self.handover.fields
        if fields is None:
            return None
        conversation = (fields.get("conversation") or {}).get("id")
        own = json_dumps(own_items(payload)[self.handover.items :])
        return StoredRequest(fields["previous_response_id"], conversation, fields["store"] is True, own)

    async def run(self, open_stream: OpenStream) -> bool:
        """Run it to its end. Return False if the upstream does not have the response, or the request has no sense here.

        `open_stream` returns the receiver of its stream.
        """
        services, handover, scope = self._services, self.handover, self.scope
        timers = services.open_requests.add_detached(services.config.server.timeouts)
        scope.open_stream = open_stream
        try:
            answer = await self._calls.open(handover, timers, self.attachment)
            if answer is None:
                return False
            try:
                await self._begin(answer)
                await Exchange(scope).answer_detached(answer, timers)
            finally:
                await answer.close()
        except asyncio.CancelledError:
            if not self.is_open and not self.attachment.is_taken:
                await self._calls.cancel(handover)
            raise
        except Exception as error:
            if not self.is_open:
                log.warning("%s cannot go on here: %r", self.receipt.request_id, error)
                return False
            await answer_failure(scope, error)
        finally:
            services.open_requests.remove(timers)
            if self.is_open and self.receipt.ended == "open":
                end_abandoned(scope)
            if not self.is_open:
                self.book_lost()
        return True

    def book_lost(self) -> None:
        """Book it as lost, unless another process books it."""
        if self.handover.usage is not None and not self.attachment.is_taken:
            self._services.instruments.usage.add_lost(self.handover.usage)

    async def cancel(self) -> None:
        """Cancel the response at the upstream."""
        await self._calls.cancel(self.handover)

    async def _begin(self, answer: UpstreamResponse) -> None:
        """Make the translator of the reply, and count the exchange as open."""
        services, handover, receipt, loaded = self._services, self.handover, self.receipt, self._services.loaded
        body, handover.body = handover.body, b""
        payload = await compute(len(body), partial(parse_body, body, loaded.config.server.limits), receipt.owner)
        stored = self.stored_request(payload)
        turn = None
        if stored is not None and handover.fields is not None:
            responses = services.responses.stored
            keep = None
            if stored.store and responses is not None:
                keep = partial(responses.keep, self._owner, receipt.request_id, receipt.created, stored)
            turn = StoredTurn(StoredReply(handover.fields, keep), stored, handover.items)
        provider = self._calls.provider_of(handover)
        target = loaded.router.resolve(handover.model, receipt.client)
        assert provider is not None
        target = target._replace(provider=provider, upstream_model=handover.upstream_model, plan=None)
        receipt.route = target.route
        headers = {ON_LOSS: handover.on_loss} if handover.on_loss is not None else {}
        job = translation_of(self.scope, loaded, target, body, payload, headers, turn)
        receipt.translation = await compute(len(body), job, receipt.owner)
        self.is_open = receipt.is_held = True
        if handover.usage is not None:
            services.instruments.usage.take_over(receipt.request_id, handover.usage)
        self.scope.reopen(services.now() - receipt.created)
        services.receipts.file(receipt)
