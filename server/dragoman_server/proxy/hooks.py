"""The hooks of an application that embeds the gateway: `authorize`, `choose` and `on_end`.

`authorize` and `choose` are awaited within the request and are cancelled with it. To reject a request they raise an
`aiohttp.web.HTTPException` such as `HTTPForbidden(text="…")`, of which the client gets the status, the text (or the
reason) and `Retry-After`, or a `DragomanError`, of which it gets the status and the message. What looks like a key is
masked in them. Any other exception is logged, and the client gets a 500.

Their types have a parameter, the type of `Principal.data`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import web

from dragoman import Dialect, DragomanError, Failure, Knobs
from dragoman.aio import DEFECT
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import DEFAULT_DIALECT, changed_fields, read_error, redact
from dragoman_server.accounts.limits.prices import Prices
from dragoman_server.accounts.usage.book import UsageBook
from dragoman_server.config.provider import Provider
from dragoman_server.observability.ended_exchange import EndedExchange
from dragoman_server.observability.exchange_record import ExchangeRecord, Principal, User_co
from dragoman_server.proxy.error_response import HOOK
from dragoman_server.receipt import Receipt
from dragoman_server.routing.router import RoutedTarget, Router
from dragoman_server.routing.task_set import TaskSet

log = logging.getLogger("dragoman")
User = TypeVar("User")
"""The type of `Principal.data`: an application's own users."""
User_contra = TypeVar("User_contra", contravariant=True)
_KINDS = {
    401: FailureKind.AUTHENTICATION,
    402: FailureKind.BILLING,
    403: FailureKind.PERMISSION,
    404: FailureKind.NOT_FOUND,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    429: FailureKind.RATE_LIMIT,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
}
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_MESSAGES = {
    FailureKind.AUTHENTICATION: "the API key is missing or not valid",
    FailureKind.BILLING: "this account cannot be charged for the request",
    FailureKind.PERMISSION: "this request is not permitted",
    FailureKind.NOT_FOUND: "the model was not found",
    FailureKind.RATE_LIMIT: "too many requests; try again later",
    FailureKind.OVERLOADED: "the service is not available; try again later",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A provider and a model there, as `choose` returns them.

    `provider` is the name of one in the configuration, or a `Provider` of the application's own. The name of the
    latter becomes a label of metrics, so there should be few of them. `knobs` are those of the request; None stands
    for the configuration's, with what the client's profile changes.
    """

    __repr__ = changed_fields

    provider: Provider | str
    upstream_model: str
    knobs: Knobs | None = None


class Authorize(Protocol[User_co]):
    """Decides who may use the gateway, in place of `server.keys`."""

    def __call__(self, request: web.Request, /) -> Awaitable[Principal[User_co] | None]:
        """Return the user of a request, or None for a 401. It must not read the request's body."""
        ...


class Choose(Protocol[User_contra]):
    """Decides which provider and which model a request goes to."""

    def __call__(
        self, request: web.Request, model: str, dialect: Dialect, principal: Principal[User_contra] | None, /
    ) -> Awaitable[Target | None]:
        """Return the target of a request for `model` by a client of `dialect`, or None for that of the routes."""
        ...


class OnEnd(Protocol[User_contra]):
    """Receives the record of each exchange."""

    def __call__(self, record: ExchangeRecord[User_contra], /) -> Awaitable[None] | None:
        """Handle the record of an exchange that has ended; called exactly once for each.

        An awaitable that it returns runs in a task of its own, so a client that disconnects does not cancel it.
        """
        ...


@dataclass(frozen=True)
class Hooks(Generic[User]):
    """The hooks of one gateway, and the price table of its application, if that has one."""

    __repr__ = changed_fields

    authorize: Authorize[User] | None = None
    choose: Choose[User] | None = None
    on_end: OnEnd[User] | None = None
    prices: Prices | None = None
    """Prices for budgets of cost, in place of those of the configuration."""


NO_HOOKS: Hooks[Any] = Hooks()


async def authorized(hook: Authorize[Any], request: web.Request) -> tuple[bytes, Principal[Any]]:
    """Return the digest that separates users, and the user of a request. Raises DragomanError."""
    try:
        principal = await hook(request)
        if principal is not None:
            return sha256(principal.id.encode("utf-8", "surrogateescape")).digest(), principal
    except Exception as error:
        raise _rejection(error, "authorize", request) from None
    raise DragomanError(_failure(401))


async def chosen(
    hook: Choose[Any],
    request: web.Request,
    model: str,
    dialect: Dialect,
    principal: Principal[Any] | None,
    router: Router,
) -> RoutedTarget | None:
    """Return the target that the hook chooses, None for that of the routes. Raises DragomanError."""
    try:
        target = await hook(request, model, dialect, principal)
        return _routed(target, router) if target is not None else None
    except Exception as error:
        raise _rejection(error, "choose", request) from None


def _routed(target: Target, router: Router) -> RoutedTarget:
    provider = target.provider
    if isinstance(provider, str):
        provider = router.config.providers[provider]
    elif problems := list(provider.problems("provider")):
        raise ValueError("; ".join(f"{path}: {problem}" for path, problem in problems))
    routed = router.direct_target(provider, target.upstream_model, "choose")
    return routed if target.knobs is None else routed._replace(knobs=target.knobs, by_client={})


def _rejection(error: Exception, hook: str, request: web.Request) -> DragomanError:
    """Return the error that the client gets for an exception of a hook."""
    if isinstance(error, DragomanError):
        error.failure.origin, error.failure.reason = _origin(error.failure.status), HOOK
        return error
    if isinstance(error, web.HTTPException) and error.status >= 400:
        failure = _failure(error.status)
        failure.message = _text(error) or failure.message
        if (seconds := error.headers.get("retry-after")) is not None:
            failure.headers["retry-after"] = seconds
        return DragomanError(failure)
    log.error("the hook %s failed for %s %s", hook, request.method, request.path, exc_info=error)
    return DragomanError(replace(DEFECT, reason=HOOK))


def _text(error: web.HTTPException) -> str:
    """Return the text of an exception, else its reason; empty if both are those of its class."""
    body, reason = error.body, error.reason
    if isinstance(body, bytes) and body.strip() and body != f"{error.status}: {reason}".encode():
        return read_error(DEFAULT_DIALECT, error.status, body, error.headers).message
    return "" if reason in (None, "", _PHRASES.get(error.status)) else redact(reason)


def _failure(status: int) -> Failure:
    kind = _KINDS.get(status) or (FailureKind.API if status >= 500 else FailureKind.INVALID_REQUEST)
    message = _MESSAGES.get(kind, "the request was rejected")
    return Failure(kind, message, status, origin=_origin(status), reason=HOOK)


def _origin(status: int) -> FailureOrigin:
    return FailureOrigin.PROXY if status >= 500 else FailureOrigin.CLIENT


class EndReporter:
    """Books the usage of each exchange, calls the hook `on_end`, and runs what that returns."""

    def __init__(self, hook: OnEnd[Any] | None, usage: UsageBook) -> None:
        self._hook = hook
        self._usage = usage
        self._tasks = TaskSet()

    def report(self, receipt: Receipt, failure: Failure | None) -> None:
        """Report an exchange that has just ended. Exceptions of the hook are logged."""
        try:
            exchange = EndedExchange.of(receipt, failure, self._usage.cost)
            self._usage.add(exchange)
            if self._hook is not None:
                self._call(self._hook, exchange.record())
        except Exception:
            log.exception("%s the hook on_end failed", receipt.request_id)

    def report_run(self, record: ExchangeRecord[Any]) -> None:
        """Report the end of a response that its upstream ran. Exceptions of the hook are logged."""
        try:
            if self._hook is not None:
                self._call(self._hook, record)
        except Exception:
            log.exception("%s the hook on_end failed", record.request_id)

    def _call(self, hook: OnEnd[Any], record: ExchangeRecord[Any]) -> None:
        pending = hook(record)
        if pending is not None:
            self._tasks.begin(self._run(pending, record.request_id))

    async def _run(self, pending: Awaitable[None], request_id: str) -> None:
        try:
            await pending
        except Exception:
            log.exception("%s the hook on_end failed", request_id)

    async def close(self, seconds: float) -> None:
        """Wait for the running tasks, and cancel those that take longer than `seconds`."""
        if self._tasks:
            _, late = await asyncio.wait(tuple(self._tasks), timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
