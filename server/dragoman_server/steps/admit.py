"""Admission: who sends the request, and whether the gateway takes it."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web
from multidict import istr

from dragoman import ClientRequestError, DragomanError
from dragoman.aio import STOPPING
from dragoman.errors import UpstreamUnreachable
from dragoman_server.accounts.keys.tag import TAG_HEADER, TAG_RULE, is_tag
from dragoman_server.draft import Draft
from dragoman_server.proxy.auth import WITHOUT_KEY, Caller, check_inbound, check_named
from dragoman_server.proxy.hooks import authorized
from dragoman_server.proxy.load_shedding import check_load
from dragoman_server.proxy.upstream_request import SENDER
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services

_TAG = istr(TAG_HEADER)


async def admit(scope: RequestScope, draft: Draft) -> None:
    """Find the client of a request."""
    check_open(scope.services, draft.request)
    scope.admitted(await identify(scope.services, draft.request))
    key, tag = scope.caller.key, draft.request.headers.get(_TAG)
    if tag is not None:
        _check_tag(tag)
        scope.receipt.tag = tag
    elif key is not None:
        scope.receipt.tag = key.tag


def file_receipt(scope: RequestScope, draft: Draft) -> None:
    """Keep the receipt, so that its client can read it."""
    scope.services.receipts.file(scope.receipt)


async def admit_request(services: Services, request: web.Request) -> Caller:
    """Return the client of a request that is not one of the pipelines. Raises DragomanError as `admit` does."""
    check_open(services, request)
    return await identify(services, request)


def check_open(services: Services, request: web.Request) -> None:
    """Raise DragomanError if no request may go upstream now, or if this one is the gateway's own."""
    if services.open_requests.stopping:
        raise DragomanError(replace(STOPPING, headers={"retry-after": "1"}))
    load = services.instruments.load
    if load.checked:
        check_load(load, services.instruments.metrics.totals)
    if request.headers.get(SENDER) == services.upstream_requests.sender:
        # A base URL exported for the gateway's clients and inherited by the gateway itself.
        raise UpstreamUnreachable("this gateway is configured as its own upstream; check the providers' base_url")


def _check_tag(tag: str) -> None:
    """Raise ClientRequestError for a text that cannot be a tag."""
    if not is_tag(tag):
        raise ClientRequestError("", f"the header {TAG_HEADER} must have {TAG_RULE}")


async def identify(services: Services, request: web.Request) -> Caller:
    """Return the client of a request. Raises DragomanError if it may not use the gateway."""
    loaded = services.loaded
    if loaded.web_origins is not None:
        loaded.web_origins.check(request)
    if services.hooks.authorize is not None:
        return Caller(*await authorized(services.hooks.authorize, request))
    if not loaded.requires_key:
        return WITHOUT_KEY
    if (accounts := services.named_keys.accounts) is not None and loaded.named_keys:
        return check_named(accounts.keys, loaded.config, request.headers)
    return Caller(check_inbound(loaded.config, request.headers))
