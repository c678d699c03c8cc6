"""Handles the requests that go upstream: the steps before one is sent, its sending, and its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from dragoman import Dialect
from dragoman.aio import FewPerTurn, HijackableConnection, StreamTimers, UpstreamResponse
from dragoman_server.draft import Draft
from dragoman_server.pipeline import Pipelines, run_steps
from dragoman_server.proxy.attempts import Attempts
from dragoman_server.proxy.exchange import Exchange
from dragoman_server.proxy.request_failure import answer_failure, end_abandoned
from dragoman_server.proxy.send_attempt import ClientReply
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.forward import forward_again
from dragoman_server.steps.translate import translate_again

STARTS: Final = 1
"""Requests that begin in a turn of the event loop: each takes half a millisecond."""
REPLIES: Final = 2
"""Replies that begin in a turn: each takes a quarter of a millisecond."""
WAITING: Final = 256
"""Requests that wait for a turn. Further ones begin at once: the lag of the event loop must show an overload, so that
they are rejected."""
BeginBackground = Callable[[RequestScope, Draft], Coroutine[Any, Any, web.StreamResponse]]
"""Begins the run of a request in the background, and returns the response to the request."""


class RequestHandler:
    """Handles the requests of one gateway. `begin_background` begins runs in the background."""

    def __init__(self, services: Services, begin_background: BeginBackground) -> None:
        self._services = services
        self._begin_background = begin_background
        self._pipelines = Pipelines(services)
        self._replies = FewPerTurn(REPLIES)
        self._starts = FewPerTurn(STARTS, self._replies)

    def configure(self) -> None:
        """Use the steps of a new configuration."""
        self._pipelines = Pipelines(self._services)

    async def answer_detachable(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        """Handle a request as `answer` does. A long reply can take over its connection, if that is a hijackable one."""
        work = self.answer(request, client)
        line = HijackableConnection.of(request)
        return await (line.run_detachable(work) if line is not None else work)

    async def answer(
        self, request: web.Request, client: Dialect, scope: RequestScope | None = None, endpoint: str = ""
    ) -> web.StreamResponse:
        """Handle a request, and return its response: one to be ignored if the stream was sent elsewhere.

        `scope` is that of a request that has begun already, `endpoint` the path of a forwarded endpoint below `/v1`.
        """
        # One function with few local variables, as an open stream keeps its frame.
        if scope is None:
            scope = RequestScope.begin(self._services, request, client, endpoint)
        timers: StreamTimers | None = None
        try:
            if not self._starts.has_room() and len(self._starts) < WAITING:
                await self._starts.next_turn()
            steps = self._pipelines.forwarded if endpoint else self._pipelines.translated(client)
            draft = await run_steps(steps, scope, Draft(request, self._services.loaded))
            if draft.background is not None:
                return await self._begin_background(scope, draft)
            if scope.run is not None:
                await scope.run.accept(scope.translation)
            timers = self._services.open_requests.add(request, draft.call.timeouts)
            reply = _reply(scope)
            opening, early = _opening(scope, draft, reply, timers), _early(scope, draft)
            # An open stream would keep three times the body: 26 of 57 kB with one of 2 kB.
            del draft, steps
            if early and isinstance(reply, Exchange):
                return await reply.answer_early(request, opening, timers, early)
            answer = await opening
            try:
                if len(self._services.open_requests) > REPLIES and not self._replies.has_room():
                    await self._replies.next_turn()
                scope.translation.body = b""
                work = reply.answer(request, answer, timers)
                del request, reply  # 4.6 of the 36 kB of an open stream
                return await work
            finally:
                await answer.close()
        except Exception as error:
            return await answer_failure(scope, error)
        finally:
            # The client has disconnected, which may have cancelled this. A run in the background ends later.
            if scope.receipt.ended == "open" and (scope.run is None or timers is not None):
                end_abandoned(scope)
            if timers is not None:
                self._services.open_requests.remove(timers)


def _reply(scope: RequestScope) -> ClientReply:
    """Return what makes the client's reply."""
    if not scope.receipt.endpoint:
        return Exchange(scope)
    from dragoman_server.proxy.forwarded_reply import ForwardedReply  # 0.1 MB of memory

    return ForwardedReply(scope)


def _opening(
    scope: RequestScope, draft: Draft, reply: ClientReply, timers: StreamTimers
) -> Coroutine[Any, Any, UpstreamResponse]:
    """Send the request: once, or by the attempts of a route that may have several."""
    if draft.ranking is None:
        return draft.send(timers)
    draft.payload = {}  # each attempt has its own
    if not scope.receipt.endpoint:
        return Attempts(scope, draft, reply, translate_again).open(timers)
    return Attempts(scope, draft, reply, forward_again).open(timers)


def _early(scope: RequestScope, draft: Draft) -> float:
    """Return the seconds after which the response is started without the upstream's; 0 for none."""
    own = scope.open_stream is None and not scope.receipt.endpoint
    return draft.call.timeouts.early_reply if draft.call.stream and own else 0.0
