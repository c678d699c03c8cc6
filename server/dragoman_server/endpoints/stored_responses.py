"""`GET` and `DELETE /v1/responses/{id}`, and `GET /v1/responses/{id}/input_items`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from dragoman import ClientRequestError, Dialect, DragomanError, json_dumps
from dragoman.aio import DEFECT, ClientGone
from dragoman.threads import ItemPage, deleted_response, is_response_id, page_of, response_not_found
from dragoman_server.proxy.error_response import CLIENT_GONE, OWN_ID, error_response
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.stored_responses import StoredResponses, owner_of

log = logging.getLogger("dragoman")
_STREAMED = "a stored response cannot be streamed again; leave out `stream`"


class ResponsesEndpoints:
    """The endpoints of stored responses. A client sees its own only; others are a 404 for it."""

    def __init__(self, gateway: Gateway, stored: StoredResponses) -> None:
        self._gateway = gateway
        self._stored = stored

    async def get(self, request: web.Request) -> web.Response:
        """Return a stored response."""

        async def make(owner: str, _: str) -> bytes:
            response_id = _response_id(request)
            if request.query.get("stream", "false") not in ("false", "0"):
                raise ClientRequestError("stream", _STREAMED)
            node = await self._stored.get(owner, response_id)
            if node is None:
                raise response_not_found(response_id)
            return node.reply

        return await respond(self._gateway, request, make)

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a stored response."""

        async def make(owner: str, _: str) -> bytes:
            response_id = _response_id(request)
            if not await self._stored.delete(owner, response_id):
                raise response_not_found(response_id)
            return json_dumps(deleted_response(response_id))

        return await respond(self._gateway, request, make)

    async def input_items(self, request: web.Request) -> web.Response:
        """Return a page of the items that a response was made from."""

        async def make(owner: str, _: str) -> bytes:
            response_id, page = _response_id(request), ItemPage.read(request.query)
            return json_dumps(page_of(await self._stored.items_before(owner, response_id), page))

        return await respond(self._gateway, request, make)


async def respond(gateway: Gateway, request: web.Request, make: Callable[[str, str], Awaitable[bytes]]) -> web.Response:
    """Return the JSON that `make` returns for the owner of what the client may see, and the request's id.

    A DragomanError becomes its error response.
    """
    request_id = gateway.new_id()
    try:
        caller = await gateway.identify(request)
        body = await make(owner_of(caller.owner, caller.key), request_id)
    except DragomanError as error:
        return error_response(Dialect.RESPONSES, error.failure, request_id)
    except (ClientGone, ConnectionError):
        return web.Response(status=CLIENT_GONE)
    except Exception:
        log.exception("%s %s failed by a defect", request_id, request.path)
        return error_response(Dialect.RESPONSES, replace(DEFECT), request_id)
    headers = {Dialect.RESPONSES.request_id_header: request_id, OWN_ID: request_id}
    return web.Response(body=body, content_type="application/json", headers=headers)


def _response_id(request: web.Request) -> str:
    """Return the id in the path. Raises DragomanError (404) for any other text."""
    response_id = request.match_info["id"]
    if not is_response_id(response_id):
        raise response_not_found(response_id)
    return response_id
