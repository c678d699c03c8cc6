"""The attempts of one client request: it is sent again, or to another provider, until a first event has come.

    choose → (queue) → send → first event, or failure → (pause) → choose …

`Attempts.open` takes the place of the transport's `open` for routes with retries, several providers, or limits. It
returns a response whose first event was read, so nothing that the client has received is ever sent again. For another
dialect the client's own request is translated again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from dragoman import ClientRequestError, Failure
from dragoman.aio import StreamTimers, UpstreamResponse
from dragoman.gateway import conversation_digest
from dragoman_server.config.provider import Auth
from dragoman_server.draft import Draft
from dragoman_server.observability.metric_families import ATTEMPTS, UPSTREAM_ERRORS
from dragoman_server.observability.metrics import kind_of
from dragoman_server.proxy.auth import owner_at
from dragoman_server.proxy.limits import estimate_by_size
from dragoman_server.proxy.send_attempt import AttemptResult, ClientReply, send_attempt
from dragoman_server.proxy.wait_with_timers import set_once, wait_with_timers
from dragoman_server.receipt import AttemptRow, Receipt
from dragoman_server.routing.backoff import backoff
from dragoman_server.routing.client_pauses import party_of
from dragoman_server.routing.outcomes import (
    ABANDONED,
    ANSWERED,
    QUEUED_OUT,
    UNTRANSLATABLE,
    AttemptOutcome,
    Blame,
    Scope,
)
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.response_issuers import issuer_of
from dragoman_server.routing.router import RoutedTarget
from dragoman_server.routing.routing_state import RoutingState, overloaded
from dragoman_server.scope import RequestScope
from dragoman_server.steps.read import parse

log = logging.getLogger("dragoman")


Translate = Callable[[RequestScope, Draft, RoutedTarget], Awaitable[None]]
"""Translates the client's own request again, for this target, and builds the request to its upstream."""


class Attempts:
    """The attempts of one request.

    Args:
        scope: The request. Its receipt gets a row for each attempt.
        draft: The request as it was prepared for the first attempt. Its body is kept while further ones are possible.
        reply: Gets the response of each attempt.
        translate: Prepares the draft for another attempt.
    """

    __slots__ = (
        "_candidate",
        "_draft",
        "_owner",
        "_party",
        "_plan",
        "_ranking",
        "_repeats",
        "_reply",
        "_routing",
        "_scope",
        "_target",
        "_translate",
        "_tried",
        "_waited",
    )

    def __init__(self, scope: RequestScope, draft: Draft, reply: ClientReply, translate: Translate) -> None:
        assert draft.target.plan is not None
        assert draft.candidate is not None
        assert draft.ranking is not None
        self._scope = scope
        self._draft = draft
        self._reply = reply
        self._translate = translate
        self._target = draft.target
        self._plan = draft.target.plan
        self._ranking = draft.ranking
        self._candidate = draft.candidate
        self._routing = scope.services.routing
        self._owner = owner_at(draft.target.provider, scope.receipt.owner, draft.request.headers)
        self._party = party_of(self._owner, draft.conversation)
        self._tried: dict[Candidate, AttemptOutcome] = {}
        self._repeats = 0
        self._waited = 0.0

    async def open(self, timers: StreamTimers) -> UpstreamResponse:
        """Send the request until it is answered, or no further attempt is possible.

        Return the response of the last attempt, with its first event read if it is a stream. Raises DragomanError for
        the last attempt's failure, or if no place at a provider became free.
        """
        routing, receipt = self._routing, self._scope.receipt
        while True:
            while not await self._enter(timers):
                if not await self._turn_away():
                    raise overloaded()
            candidate = self._candidate
            if len(receipt.attempts) + 1 >= self._plan.attempts:
                self._draft.body = b""  # it may be large, and is not translated again
            result = await self._attempt(timers)
            if result.outcome is ANSWERED:
                self._scope.at_end(partial(_free, routing, candidate))
                break
            routing.free(candidate)
            try:
                pause = await self._following(result.outcome)
            except BaseException:
                if result.response is not None:
                    await self._drop(result.response)
                raise
            if pause is None:
                break
            self._report_failed(result, candidate)
            if result.response is not None:
                await self._drop(result.response)
            if pause > 0.0:
                self._waited += pause
                await wait_with_timers(timers, pause, asyncio.get_running_loop().create_future())
            timers.restart()
            self._trace_next()
        if result.error is not None:
            raise result.error
        assert result.response is not None
        return result.response

    async def _enter(self, timers: StreamTimers) -> bool:
        """Take a place at the candidate, or wait for one. Return False if it has no room in its queue.

        Raises DragomanError (503) if no place becomes free in time.
        """
        routing, candidate = self._routing, self._candidate
        provider, slots = candidate.provider, routing.of(candidate.provider).slots
        if not slots.take():
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            wake, owner, is_dropped = partial(set_once, future, True), self._party[:1], False

            def drop() -> None:
                nonlocal is_dropped
                is_dropped = True
                set_once(future, False)

            if not slots.wait(wake, owner, drop):
                self._record_full()
                return False
            routing.queued(provider.name, 1)
            began, entered = routing.clock(), False
            try:
                seconds = min(provider.queue_seconds, max(0.0, routing.options.wait - self._waited))
                entered = await wait_with_timers(timers, seconds, future)
            except BaseException:
                self._record(QUEUED_OUT, 0.0)
                raise
            finally:
                self._waited += routing.clock() - began
                routing.queued(provider.name, -1)
                if not entered and not slots.withdraw(wake, owner):
                    slots.free()  # it came too late
            if not entered:
                self._record_full()
                if is_dropped:
                    return False
                raise overloaded()
            timers.restart()
        routing.begin(candidate, self._party)
        return True

    async def _turn_away(self) -> bool:
        """Turn from a candidate without room to another one. Return False if no other has room."""
        if self._draft.form is not None:
            return False  # it goes upstream while it arrives, and its call is made already
        self._tried[self._candidate] = QUEUED_OUT
        for candidate in self._routing.usable(self._fresh(QUEUED_OUT), self._party):
            if await self._turn_to(candidate):
                if (trace := self._scope.trace) is not None:
                    trace.fail_attempt(overloaded().failure)
                self._trace_next()
                return True
        return False

    def _trace_next(self) -> None:
        """Begin the next attempt in the trace, if the request is traced."""
        if (trace := self._scope.trace) is not None:
            provider, model = self._candidate.provider, self._candidate.upstream_model
            self._draft.call = trace.start_attempt(self._draft.call, provider, model)

    async def _know_conversation(self) -> None:
        """Add the conversation to the party, if that was not needed before."""
        draft, receipt = self._draft, self._scope.receipt
        if draft.conversation is None and draft.body:
            await parse(self._scope, draft)
            payload, draft.payload = draft.payload, {}
            draft.conversation = conversation_digest(receipt.client, payload, receipt.owner)
            self._party = party_of(self._owner, draft.conversation)

    def _record_full(self) -> None:
        self._routing.totals.add(ATTEMPTS, (self._candidate.provider.name, QUEUED_OUT.word))
        self._record(QUEUED_OUT, 0.0)

    async def _attempt(self, timers: StreamTimers) -> AttemptResult:
        """Send the request once, and record the outcome. Raises what is no failure of the upstream."""
        routing, candidate = self._routing, self._candidate
        began = routing.clock()
        try:
            result = await send_attempt(self._scope, self._draft, self._reply, candidate.provider, timers)
        except BaseException:
            self._abandon(began)
            raise
        if result.outcome is not ANSWERED:
            try:
                await self._know_conversation()
            except BaseException:
                if result.response is not None:
                    await self._drop(result.response)
                self._abandon(began)
                raise
        routing.end(candidate, result.outcome, self._party, again=candidate in self._tried)
        self._record(result.outcome, routing.clock() - began)
        return result

    def _abandon(self, began: float) -> None:
        self._routing.end(self._candidate, ABANDONED, self._party)
        self._record(ABANDONED, self._routing.clock() - began)
        self._routing.free(self._candidate)

    async def _drop(self, response: UpstreamResponse) -> None:
        """Close the response of an attempt that another one follows."""
        await self._reply.drop()
        await response.close()

    def _report_failed(self, result: AttemptResult, candidate: Candidate) -> None:
        """Count and trace the failure of an attempt that another one follows: the exchange does not report it."""
        failure = result.reported()
        kind = kind_of(failure, own_key=candidate.provider.auth is Auth.CONFIGURED)
        name, word = candidate.provider.name, result.outcome.word
        self._routing.totals.add(UPSTREAM_ERRORS, (name, kind))
        note = self._scope.warnings.of_fallback(name, word)
        if note is not None and self._candidate.provider.name != name:
            reason = word if result.outcome.status is None else f"{word}, status {result.outcome.status}"
            log.warning("%s provider %s failed (%s): the request goes to %s%s",
                        self._scope.receipt.request_id, name, reason, self._candidate.provider.name, note)  # fmt: skip
        if (trace := self._scope.trace) is not None:
            trace.fail_attempt(failure)

    # --- the next attempt --------------------------------------------------------------------------------------------

    async def _following(self, outcome: AttemptOutcome) -> float | None:
        """Prepare the next attempt. Return the pause before it, or None if there is to be none."""
        self._tried[self._candidate] = outcome
        if outcome.scope is Scope.NOWHERE:
            return None
        if len(self._scope.receipt.attempts) >= self._plan.attempts:
            self._routing.deny("attempts")
            return None
        reason = "candidates"
        following = self._larger() if outcome.scope is Scope.LARGER else self._fresh(outcome)
        for candidate in self._routing.usable(following, self._party):
            # A provider that works is not in an outage that retries could make worse.
            if not await self._routing.budget.spend(self._owner, free=self._routing.works(candidate)):
                reason = "budget"
            elif await self._turn_to(candidate):
                return 0.0
        if outcome.scope is Scope.LARGER:
            return None  # the same request is too long for the others, too
        reason, pause = await self._again(reason)
        if pause is None:
            self._routing.deny(reason)
        return pause

    def _fresh(self, outcome: AttemptOutcome) -> list[Candidate]:
        """Return the candidates that may do better than the present one, which has failed."""
        name, model = self._candidate.provider.name, self._candidate.upstream_model
        found = [candidate for candidate in self._ranking if candidate not in self._tried]
        if outcome.blame is Blame.PROVIDER:
            # Its other keys would fail in the same way; its other models, too, if it cannot even be reached.
            found = [
                candidate
                for candidate in found
                if candidate.provider.name != name
                or (candidate.upstream_model != model and outcome.word != "unreachable")
            ]
        return found

    def _larger(self) -> list[Candidate]:
        """Return the candidates for a request that is too long for the present one."""
        return [candidate for candidate in self._plan.larger if candidate not in self._tried]

    async def _again(self, reason: str) -> tuple[str, float | None]:
        """Prepare the request to a candidate that was tried. Return the pause before it, or None and the reason."""
        routing, options = self._routing, self._routing.options
        pauses = []
        for candidate, outcome in self._tried.items():
            if outcome.scope is Scope.ANYWHERE and not routing.is_broken(candidate, self._party):
                usual = backoff(self._repeats + 1, options.backoff, options.backoff_max, routing.random)
                pauses.append((max(usual, outcome.after or 0.0), candidate))
        if not pauses:
            return reason, None
        pause, candidate = min(pauses, key=lambda each: each[0])
        if self._waited + pause > options.wait:
            return "wait", None
        if not await routing.budget.spend(self._owner):
            return "budget", None
        self._repeats += 1
        return reason, pause if await self._turn_to(candidate) else None

    async def _turn_to(self, candidate: Candidate) -> bool:
        """Translate the client's request for a candidate. Return False if its dialect cannot express it."""
        scope, receipt, provider = self._scope, self._scope.receipt, candidate.provider
        before = receipt.translation, receipt.provider
        target = self._target._replace(provider=provider, upstream_model=candidate.upstream_model)
        try:
            await self._translate(scope, self._draft, target)
        except ClientRequestError as error:
            self._tried[candidate] = UNTRANSLATABLE
            log.debug("%s provider %s cannot get this request: %s", receipt.request_id, provider.name, error)
            receipt.translation, receipt.provider = before
            return False
        self._candidate = candidate
        if before[0] is not None:
            receipt.keep_attempt(before[0])
        context = scope.translation.context
        if scope.services.instruments.usage.writes and not context.input_estimate:
            context.input_estimate = estimate_by_size(scope.translation.body)
        if scope.expected is not None:
            scope.expected.issuer = issuer_of(candidate)
        return True

    def _record(self, outcome: AttemptOutcome, seconds: float) -> None:
        receipt, candidate = self._scope.receipt, self._candidate
        row = AttemptRow(
            candidate.provider.name,
            candidate.upstream_model,
            candidate.number,
            outcome.word,
            outcome.status,
            seconds,
            self._waited,
        )
        receipt.attempts = (*receipt.attempts, row)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s attempt %d: %s", receipt.request_id, len(receipt.attempts), row)


def _free(routing: RoutingState, candidate: Candidate, _: Receipt, failure: Failure | None) -> None:
    """Leave the place at a candidate, at the end of the request that it has answered."""
    routing.free(candidate)
