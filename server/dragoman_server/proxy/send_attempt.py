"""One attempt of a request: it is sent, and its outcome is known by the first event or by the error."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from aiohttp import web

from dragoman import DragomanError, Failure
from dragoman.aio import StreamTimers, UpstreamResponse
from dragoman.errors import FailureKind, FailureOrigin, UpstreamStatusError
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.draft import Draft
from dragoman_server.proxy.refusal import read_refusal
from dragoman_server.routing.backoff import RetryHints, retry_hints
from dragoman_server.routing.outcomes import ANSWERED, AttemptOutcome, outcome_of_failure, outcome_of_status
from dragoman_server.scope import RequestScope

_KINDS = {
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.BILLING,
    403: FailureKind.PERMISSION,
    408: FailureKind.TIMEOUT,
    409: FailureKind.CONFLICT,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}


class AttemptResult(NamedTuple):
    """An attempt's outcome, with the response or the error that the client gets if no further attempt is made.

    `failure` is the error in the body of a response, if that was read.
    """

    outcome: AttemptOutcome
    response: UpstreamResponse | None = None
    error: DragomanError | None = None
    failure: Failure | None = None

    def reported(self) -> Failure:
        """Return the failure for the metrics and the trace; one by the status if the body was not read."""
        if self.error is not None:
            return self.error.failure
        status = self.outcome.status or 500
        return self.failure or Failure(_KINDS.get(status, FailureKind.API), "", status)


class ClientReply(Protocol):
    """Makes the client's reply from an upstream's response."""

    async def begin(self, answer: UpstreamResponse, timers: StreamTimers) -> Failure | None:
        """Read a whole reply, or a stream up to its first event. Return the failure if that is an error."""
        ...

    async def drop(self) -> None:
        """Close a stream that has begun, as another attempt follows."""
        ...

    def answer(
        self, request: web.Request, answer: UpstreamResponse, timers: StreamTimers
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """Return the client's response, and complete the receipt."""
        ...


async def send_attempt(
    scope: RequestScope, draft: Draft, reply: ClientReply, provider: Provider, timers: StreamTimers
) -> AttemptResult:
    """Send the request once. Raises what is no failure of the upstream."""
    own_key = provider.auth is Auth.CONFIGURED
    try:
        return await _send(scope, draft, reply, timers, own_key=own_key)
    except DragomanError as error:
        if error.failure.origin is not FailureOrigin.UPSTREAM:
            raise
        hints = retry_hints(error.failure.headers, scope.services.now())
        # Without the traceback, whose frames would keep the request until a garbage collection: 1 × its body.
        cause = error.with_traceback(None)
        return AttemptResult(_outcome(scope, error.failure, hints, own_key=own_key), error=cause)


async def _send(
    scope: RequestScope, draft: Draft, reply: ClientReply, timers: StreamTimers, *, own_key: bool
) -> AttemptResult:
    """Send the request, and read up to the first event of a stream, or a whole reply."""
    response = await draft.send(timers)
    try:
        if not 200 <= response.status < 300:
            return await _refused(scope, response, own_key=own_key)
        failure = await reply.begin(response, timers)
        if failure is None:
            return AttemptResult(ANSWERED, response)
        # The first event is an error that would be forwarded as it is.
        hints = retry_hints(response.headers, scope.services.now())
        return AttemptResult(_outcome(scope, failure, hints, own_key=own_key), response)
    except UpstreamStatusError as error:
        error.failure.headers.update(
            (name, value)
            for name, value in response.headers.items()
            if name.lower() == "retry-after" and "retry-after" not in error.failure.headers
        )
        await response.close()
        raise
    except BaseException:
        await response.close()
        raise


async def _refused(scope: RequestScope, response: UpstreamResponse, *, own_key: bool) -> AttemptResult:
    """Return the outcome of an error status. The body of one below 500 is read, as it may have the reason."""
    hints = retry_hints(response.headers, scope.services.now())
    if response.status >= 500:
        return AttemptResult(outcome_of_status(response.status, hints, own_key=own_key), response)
    read, failure = await read_refusal(response, scope)
    return AttemptResult(_outcome(scope, failure, hints, own_key=own_key), read, failure=failure)


def _outcome(scope: RequestScope, failure: Failure, hints: RetryHints, *, own_key: bool) -> AttemptOutcome:
    return outcome_of_failure(failure, hints, own_key=own_key, unserved=scope.services.routing.options.unserved)
