"""`GET` and `DELETE /v1/responses/{id}`, and `GET /v1/responses/{id}/input_items`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from dragoman import ClientRequestError, Dialect, DragomanError, json_dumps
from dragoman.aio import DEFECT
from dragoman.threads import ItemPage, deleted_response, is_response_id, list_items, response_not_found
from dragoman_server.proxy.error_response import OWN_ID, error_response
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
        return await self._answer(request, self._get)

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a stored response."""
        return await self._answer(request, self._delete)

    async def input_items(self, request: web.Request) -> web.Response:
        """Return a page of the items that a response was made from."""
        return await self._answer(request, self._input_items)

    async def _answer(
        self, request: web.Request, make: Callable[[web.Request, str, str], Awaitable[bytes]]
    ) -> web.Response:
        request_id = self._gateway.new_id()
        try:
            caller, response_id = await self._gateway.identify(request), request.match_info["id"]
            if not is_response_id(response_id):
                raise response_not_found(response_id)
            body = await make(request, owner_of(caller.owner, caller.key), response_id)
        except DragomanError as error:
            return error_response(Dialect.RESPONSES, error.failure, request_id)
        except Exception:
            log.exception("%s %s failed by a defect", request_id, request.path)
            return error_response(Dialect.RESPONSES, replace(DEFECT), request_id)
        headers = {Dialect.RESPONSES.request_id_header: request_id, OWN_ID: request_id}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _get(self, request: web.Request, owner: str, response_id: str) -> bytes:
        if request.query.get("stream", "false") not in ("false", "0"):
            raise ClientRequestError("stream", _STREAMED)
        node = await self._stored.get(owner, response_id)
        if node is None:
            raise response_not_found(response_id)
        return node.reply

    async def _delete(self, _: web.Request, owner: str, response_id: str) -> bytes:
        if not await self._stored.delete(owner, response_id):
            raise response_not_found(response_id)
        return json_dumps(deleted_response(response_id))

    async def _input_items(self, request: web.Request, owner: str, response_id: str) -> bytes:
        page = ItemPage.read(request.query)
        path = await self._stored.path(owner, response_id)
        if not path:
            raise response_not_found(response_id)
        return json_dumps(list_items(path, page))
