"""`GET` and `DELETE /v1/responses/{id}`, its `input_items`, and `POST /v1/responses/{id}/cancel`.

A response that an upstream stores is read, cancelled and deleted there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from aiohttp import web

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import FailureKind
from dragoman.gateway import STORED_DIALECT
from dragoman.threads import ItemPage, deleted_response, is_response_id, response_not_found
from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.issued_responses import find_issuer, forward_to_issuer, issuer_of_request
from dragoman_server.endpoints.not_implemented import stored_objects
from dragoman_server.proxy.auth import Caller, owner_of
from dragoman_server.proxy.background_run import BackgroundRun
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.error_response import OWN_ID
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.runs.interface import Run, RunId
from dragoman_server.proxy.shared_background import is_streamed
from dragoman_server.proxy.stored_responses import StoredResponses
from dragoman_server.services import Services
from dragoman_server.steps.admit import identify

_NOT_STREAMED = (
    "only a response that was created with `background` and `stream` can be streamed again; leave out `stream`"
)
_NO_LONGER = "its events are no longer kept from there on; leave out `stream` to read the response"


Make = Callable[[str, str], Awaitable[bytes | web.StreamResponse]]
"""A function that returns the body, or the response, for the `owner` of what is shown and the request's id."""
Find = Callable[[Services, web.Request, Caller], Awaitable[Provider | None]]
"""A function that returns the upstream that has the object of a request, or None."""


class ResponsesEndpoints:
    """The endpoints of stored responses. A client sees its own only; others are a 404 for it.

    Without a store of the gateway's own they serve what upstreams store.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._services = gateway.services

    @property
    def _stored(self) -> StoredResponses:
        stored = self._services.responses.stored
        assert stored is not None
        return stored

    async def _respond(self, request: web.Request, make: Make, what: str = "") -> web.StreamResponse:
        """Return what `make` returns, or the response of the upstream that has the response.

        `what` follows the id in the path.
        """
        services = self._services

        async def forward(caller: Caller, provider: Provider, request_id: str) -> web.StreamResponse:
            return await forward_to_issuer(services, request, caller, provider, request_id, what)

        return await respond_or_forward(services, request, make, issuer_of_request, find_issuer, forward)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Return a stored response, or one that runs in the background; with `stream`, its events."""

        async def make(owner: str, request_id: str) -> bytes | web.StreamResponse:
            response_id = _response_id(request)
            if request.query.get("stream", "false") not in ("false", "0"):
                return await self._follow(request, owner, response_id, request_id)
            return await self._state(owner, response_id)

        return await self._respond(request, make)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete a stored response."""

        async def make(owner: str, _: str) -> bytes:
            response_id = _response_id(request)
            await self._cancel(owner, response_id)
            if not await self._stored.delete(owner, response_id):
                raise response_not_found(response_id)
            return json_dumps(deleted_response(response_id))

        return await self._respond(request, make)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Cancel a response that runs in the background, and return it. One that has ended is returned as it is."""

        async def make(owner: str, _: str) -> bytes:
            response_id = _response_id(request)
            await self._cancel(owner, response_id)
            state = await self._state(owner, response_id)
            reply = await compute(len(state), partial(json_loads, state), owner, request)
            if reply.get("background") is not True:
                raise ClientRequestError("", "only a response that was created with `background` can be cancelled")
            return state

        return await self._respond(request, make, "/cancel")

    def _run(self, owner: str, response_id: str) -> BackgroundRun | None:
        background = self._gateway.background
        return background.get(owner, response_id) if background is not None else None

    async def _run_elsewhere(self, owner: str, response_id: str, number: int = 0) -> Run | None:
        """Return a run of any process, as the others know it; wait a while for its events before `number`."""
        background = self._gateway.background
        if background is None or background.elsewhere is None:
            return None
        return await background.elsewhere.get(owner, response_id, number)

    async def _cancel(self, owner: str, response_id: str) -> None:
        """Cancel a response that runs in the background, and wait for its end."""
        background = self._gateway.background
        if background is None:
            return
        if (run := background.get(owner, response_id)) is not None:
            await background.cancel(run)
        elif background.elsewhere is not None:
            await background.elsewhere.cancel(owner, response_id)

    async def _state(self, owner: str, response_id: str) -> bytes:
        """Return a response: of this process, stored, or of another process. Raises DragomanError (404)."""
        if (run := self._run(owner, response_id)) is not None and run.state:
            return run.state
        node = await self._stored.get(owner, response_id)
        if node is None and self._gateway.background is not None and self._gateway.background.elsewhere is not None:
            known = await self._run_elsewhere(owner, response_id)
            if known is not None and known.state:
                return known.state
            node = await self._stored.get(owner, response_id)  # it may have ended since
        if node is None:
            raise response_not_found(response_id)
        return node.reply

    async def _follow(self, request: web.Request, owner: str, response_id: str, request_id: str) -> web.StreamResponse:
        """Send the events of a response after `starting_after`. Raises DragomanError if they are not kept."""
        given = request.query.get("starting_after", "-1")
        digits = given.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            raise ClientRequestError("starting_after", "expected the sequence number of an event")
        after, background, name = int(given), self._gateway.background, RunId(owner, response_id)
        run = self._run(owner, response_id)
        known = await self._run_elsewhere(owner, response_id, after + 1) if run is None else None
        if not ((run is not None and not run.ended) or (known is not None and known.running)):
            await self._state(owner, response_id)  # one that was deleted has no events either
        if not ((run is not None and run.streamed) or (known is not None and is_streamed(known))):
            raise ClientRequestError("stream", _NOT_STREAMED)
        if not (run.log.has(after + 1) if run is not None else known is not None and known.has(after + 1)):
            raise ClientRequestError("starting_after", _NO_LONGER)
        assert background is not None
        return await background.follow(request, run if run is not None else name, after, request_id)

    async def input_items(self, request: web.Request) -> web.StreamResponse:
        """Return a page of the items that a response was made from."""

        async def make(owner: str, _: str) -> bytes:
            response_id, page = _response_id(request), ItemPage.read(request.query)
            items = await self._stored.history.items_before(owner, response_id)
            async with self._stored.history.reading(owner, items.size):
                return json_dumps(await items.page(page))

        return await self._respond(request, make, "/input_items")


def _own(_: web.Request, caller: Caller) -> str:
    return owner_of(caller.owner, caller.key)


async def respond_or_forward(
    services: Services,
    request: web.Request,
    make: Make,
    known: Find,
    find: Find,
    forward: Callable[[Caller, Provider, str], Awaitable[web.StreamResponse]],
) -> web.StreamResponse:
    """Return what `make` returns, or the response of the upstream that has the object of the request.

    `known` returns the upstream if that is known, `find` searches for it.
    """

    async def elsewhere(caller: Caller, request_id: str) -> web.StreamResponse | None:
        provider = await known(services, request, caller)
        if provider is not None:
            return await forward(caller, provider, request_id)
        if services.responses.stores:
            return None
        return await unknown(caller, request_id) or stored_objects(request_id, request)

    async def unknown(caller: Caller, request_id: str) -> web.StreamResponse | None:
        provider = await find(services, request, caller)
        return await forward(caller, provider, request_id) if provider is not None else None

    return await respond(services, request, make, elsewhere=elsewhere, unknown=unknown)


async def respond(
    services: Services,
    request: web.Request,
    make: Make,
    *,
    owner: Callable[[web.Request, Caller], str] = _own,
    elsewhere: Callable[[Caller, str], Awaitable[web.StreamResponse | None]] | None = None,
    unknown: Callable[[Caller, str], Awaitable[web.StreamResponse | None]] | None = None,
    content_type: str = "application/json",
) -> web.StreamResponse:
    """Return the bytes, or the response, that `make` returns, unless `elsewhere` returns a response.

    `unknown` may return one if `make` finds nothing. An exception becomes its error response.
    """
    request_id = services.new_id()
    try:
        caller = await identify(services, request)
        await services.count(caller.key, STORED_DIALECT)
        if elsewhere is not None and (response := await elsewhere(caller, request_id)) is not None:
            return response
        try:
            body = await make(owner(request, caller), request_id)
        except DragomanError as error:
            if unknown is None or error.failure.kind is not FailureKind.NOT_FOUND:
                raise
            if (found := await unknown(caller, request_id)) is None:
                raise
            return found
    except Exception as error:
        return answer_without_receipt(request, STORED_DIALECT, error, request_id)
    if isinstance(body, web.StreamResponse):
        return body
    headers = {STORED_DIALECT.request_id_header: request_id, OWN_ID: request_id}
    return web.Response(body=body, content_type=content_type, headers=headers)


def _response_id(request: web.Request) -> str:
    """Return the id in the path. Raises DragomanError (404) for any other text."""
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise response_not_found(response_id)
    return response_id
