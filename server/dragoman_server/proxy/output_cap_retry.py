"""Sends a request once more whose output cap the upstream refuses, if the client set none."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

from dragoman.aio import StreamTimers, Transport, Upload, UpstreamRequest, UpstreamResponse
from dragoman.gateway import lower_cap, quote
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.refusal import read_refusal
from dragoman_server.scope import RequestScope

log = logging.getLogger("dragoman")
REFUSALS = frozenset((400, 413, 422))
"""Statuses of a refused output cap."""


class OutputCapTransport:
    """Wraps the transport `inner` for the upstream requests of one request of a client.

    A request that is refused with an error that names a lower output cap is sent once more with that cap.
    """

    __slots__ = ("_inner", "_scope")

    def __init__(self, inner: Transport, scope: RequestScope) -> None:
        self._inner = inner
        self._scope = scope

    async def open(self, request: UpstreamRequest, timers: StreamTimers) -> UpstreamResponse:
        """Send the request and return the response. Raises DragomanError."""
        response = await self._inner.open(request, timers)
        if response.status not in REFUSALS:
            return response
        try:
            return await self._lowered(request, timers, response)
        except BaseException:
            await response.close()
            raise

    async def _lowered(
        self, request: UpstreamRequest, timers: StreamTimers, response: UpstreamResponse
    ) -> UpstreamResponse:
        """Return the response to the request with the cap that a refusal names, or the refusal."""
        receipt, translation = self._scope.receipt, self._scope.translation
        read, failure = await read_refusal(response, self._scope)
        job = partial(lower_cap, request.body, failure.message, translation.losses)
        lowered = await compute(len(request.body), job, receipt.owner)
        if lowered is None:
            return read
        await response.close()
        sent, most, of_model = lowered
        if of_model:
            self._scope.services.current.learn_output_limit(receipt.provider or "", translation.upstream_model, most)
        model = quote(translation.upstream_model)
        log.info("%s %s takes at most %d output tokens; the request is sent again", receipt.request_id, model, most)
        timers.restart()
        return await self._inner.open(replace(request, body=sent), timers)

    async def open_upload(self, request: UpstreamRequest, upload: Upload, timers: StreamTimers) -> UpstreamResponse:
        """Send a request whose body is an upload, which has no output cap."""
        return await self._inner.open_upload(request, upload, timers)

    async def close(self) -> None:
        """Leave the transport open: others use it as well."""
