"""The requests about a response that an upstream generates in the background: its stream once more, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from dragoman import DragomanError
from dragoman.aio import StreamTimers, UpstreamResponse
from dragoman.errors import UpstreamError
from dragoman.threads import is_response_id
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.background_reply import BackgroundReply
from dragoman_server.proxy.attached.handover import Handover, digest_of
from dragoman_server.services import Services

log = logging.getLogger("dragoman")
TRIES = 6
"""Requests for a stream, if the upstream cannot be reached or fails."""
PAUSE = 1.0
"""Seconds before the second request; each further one comes after twice the time."""
CANCEL_SECONDS = 5.0
"""Longest time of the request that cancels a response."""
_BODY = 1 << 20
_BUSY = (408, 409, 429)
"""Statuses below 500 of an upstream that may answer later."""


class AttachedCalls:
    """Sends the requests of one gateway. `sleep` waits for so many seconds."""

    __slots__ = ("_services", "_sleep")

    def __init__(self, services: Services, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._services = services
        self._sleep = sleep

    def provider_of(self, handover: Handover) -> Provider | None:
        """Return the provider of a run, with the key that was used; None if it is configured no more."""
        router = self._services.router
        provider = router.config.providers.get(handover.provider)
        if provider is None or not provider.background or digest_of(provider.base_url) != handover.base_url:
            return None
        return dict(provider.variants()).get(handover.key, provider)

    async def open(self, handover: Handover, timers: StreamTimers, attachment: Attachment) -> UpstreamResponse | None:
        """Return the whole stream of a response once more; None if its upstream does not know it, or stays away.

        Raises the error by which the timers end it.
        """
        answer = await self._open(handover, timers, "stream=true", 0, lambda: None)
        if answer is None:
            return None
        cancel, rejoin = partial(self._cancel, handover, attachment), partial(self.rejoin, handover, timers)
        return BackgroundReply(answer, cancel, rejoin, None, handover.response_id)

    async def rejoin(
        self, handover: Handover, timers: StreamTimers, response_id: str, number: int, fruitless: int
    ) -> UpstreamResponse | None:
        """Return the stream of a response after an event, as `open` does; `fruitless` tries were made before.

        It may be awaited outside of a task.
        """
        ended: BaseException | None = None

        def fail(error: BaseException) -> None:
            nonlocal ended
            ended = error
            task.cancel()

        query = f"stream=true&starting_after={number}"
        work = self._open(
            replace(handover, response_id=response_id), timers, query, fruitless, lambda: timers.attach(fail)
        )
        task = asyncio.get_running_loop().create_task(work)
        try:
            return await task
        except asyncio.CancelledError:
            if ended is None:
                raise
            raise ended from None

    async def _open(
        self, handover: Handover, timers: StreamTimers, query: str, first: int, attach: Callable[[], None]
    ) -> UpstreamResponse | None:
        """Request the stream, from the try of this number on. `attach` lets the timers end a pause."""
        why = "it broke too often without a new event"
        for number in range(first, TRIES):
            pause = PAUSE * 2 ** (number - 1)
            if number:
                timers.restart(pause)
                attach()
                await self._sleep(pause)
            timers.restart()
            answer, why = await self._try_open(handover, timers, query)
            if answer is not None and answer.status == 200:
                return answer
            if answer is not None:
                why = f"status {answer.status}"
                await answer.close()
                if answer.status < 500 and answer.status not in _BUSY:
                    break
        log.warning("%s cannot be attached at %s: %s", handover.response_id, handover.provider, why)
        return None

    async def _try_open(
        self, handover: Handover, timers: StreamTimers, query: str
    ) -> tuple[UpstreamResponse | None, str]:
        provider = self.provider_of(handover)
        if provider is None or not is_response_id(handover.response_id):
            return None, "the provider is configured no more"
        headers = self._services.upstream_requests.headers_about(provider, {})
        url = provider.endpoint(f"responses/{handover.response_id}", query)
        timeouts = self._services.config.server.timeouts
        call = request_to(provider, url, headers, b"", True, timeouts, "GET")
        try:
            return await self._services.upstream.transport.open(call, timers), ""
        except UpstreamError as error:
            return None, str(error)

    async def _cancel(self, handover: Handover, attachment: Attachment, _: str) -> None:
        if not attachment.is_taken:
            await self.cancel(handover)

    async def cancel(self, handover: Handover) -> None:
        """Cancel a response at its upstream. If that fails, the log has a warning."""
        provider = self.provider_of(handover)
        if provider is None or not is_response_id(handover.response_id):
            return
        headers = self._services.upstream_requests.headers_about(provider, {})
        url = provider.endpoint(f"responses/{handover.response_id}/cancel")
        call = request_to(provider, url, headers, b"", False, self._services.config.server.timeouts, "POST")
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                status, _, _ = await self._services.upstream.fetch(call, _BODY)
        except (DragomanError, TimeoutError) as error:
            log.warning("%s was not cancelled at %s: %r", handover.response_id, handover.provider, error)
        else:
            log.info("%s was cancelled at %s: status %d", handover.response_id, handover.provider, status)
