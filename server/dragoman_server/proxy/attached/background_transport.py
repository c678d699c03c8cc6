"""Sends the request of a run so that its upstream generates the response in the background."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.gateway import edit_members
from dragoman.threads import StoreError
from dragoman_server.draft import Draft
from dragoman_server.proxy.attached.attached_calls import AttachedCalls
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.background_reply import BackgroundReply
from dragoman_server.proxy.attached.handover import Handover, digest_of, key_of
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.request_body import ON_LOSS
from dragoman_server.scope import RequestScope

_FIELDS = {"background": b"true", "store": b"true"}
"""OpenAI's API runs only what it stores in the background."""


class BackgroundTransport:
    """Wraps the transport `inner` for the upstream requests of one run.

    Requests to providers without `background` are sent as they are.
    """

    __slots__ = ("_attachment", "_body", "_calls", "_draft_facts", "_inner", "_loaded", "_scope")

    def __init__(self, inner: Transport, scope: RequestScope, draft: Draft, attachment: Attachment) -> None:
        self._inner = inner
        self._scope = scope
        self._attachment = attachment
        self._loaded = draft.loaded
        self._body = draft.body
        self._calls = AttachedCalls(scope.services)
        turn = draft.turn
        stored = (turn.reply.fields, turn.items) if turn is not None else (None, 0)
        self._draft_facts = draft.request.headers.get(ON_LOSS), *stored

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError."""
        provider = self._loaded.config.providers.get(self._scope.receipt.provider or "")
        if provider is None or not provider.background or not request.stream:
            return await self._inner.open(request, timers)
        edit = partial(edit_members, request.body, _FIELDS, ())
        edited = await compute(len(request.body), edit, self._scope.receipt.owner)
        response = await self._inner.open(replace(request, body=edited.data), timers)
        if not 200 <= response.status < 300:
            return response
        scope, receipt = self._scope, self._scope.receipt
        on_loss, fields, items = self._draft_facts
        handover = Handover(
            response_id="",
            provider=provider.name,
            base_url=digest_of(provider.base_url),
            key=key_of(provider, list(request.headers.values())),
            client=receipt.client,
            created=receipt.created,
            model=receipt.model or "",
            upstream_model=scope.translation.upstream_model,
            client_profile=receipt.client_profile,
            on_loss=on_loss,
            fields=fields,
            items=items,
            usage=scope.services.instruments.usage.entry(receipt),
            body=self._body,
        )
        self._body = b""
        cancel = partial(self._cancel, handover)
        rejoin = partial(self._calls.rejoin, handover, timers)
        return BackgroundReply(response, cancel, rejoin, partial(self._known, handover))

    async def _known(self, handover: Handover, response_id: str) -> None:
        """Share what another process needs, before the client gets an event of the response."""
        handover.response_id = response_id
        data = await compute(len(handover.body), handover.write, self._scope.receipt.owner)
        self._body, handover.body = handover.body, b""  # for a further attempt
        try:
            await self._attachment.keep(data)
        except StoreError:
            return  # it is written later

    async def _cancel(self, handover: Handover, response_id: str) -> None:
        """Cancel the response, unless another process goes on with it."""
        if not self._attachment.is_taken:
            handover.response_id = response_id
            await self._calls.cancel(handover)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request whose body is an upload, as it is: runs have no such request."""
        return await self._inner.open_upload(request, upload, timers)

    async def close(self) -> None:
        """Leave the transport open: others use it as well."""
