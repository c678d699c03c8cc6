"""The endpoints of captures: `GET /v1/dragoman/captures` and `GET /v1/dragoman/captures/{capture_id}`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.wire import Json, json_dumps
from dragoman_server.endpoints.list_limit import read_limit
from dragoman_server.proxy.error_ladder import answer_without_receipt
from dragoman_server.proxy.error_response import OWN_ID, client_failure, infer_dialect
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.web_origins import may_capture
from dragoman_server.steps.admit import identify

if TYPE_CHECKING:
    from dragoman_server.observability.captures.store import CaptureStore

LIST_DEFAULT, LIST_MAX = 100, 1000
"""Captures in a list, by default and at most."""
T = TypeVar("T")


class CaptureEndpoints:
    """The endpoints of one gateway. They are for admins, and for programs of this machine if there are no keys."""

    def __init__(self, gateway: Gateway) -> None:
        self._services = gateway.services

    async def list(self, request: web.Request) -> web.Response:
        """`GET /v1/dragoman/captures?limit=…`: the summaries, the newest first."""
        return await self._answer(request, lambda store: _list(store, request.query.get("limit")))

    async def get(self, request: web.Request) -> web.Response:
        """`GET /v1/dragoman/captures/{capture_id}`: a summary, with the requests and replies."""
        return await self._answer(request, lambda store: _get(store, request.match_info["capture_id"]))

    async def _answer(self, request: web.Request, make: Callable[[CaptureStore], Json]) -> web.Response:
        request_id, dialect = self._services.new_id(), infer_dialect(request)
        try:
            store = await self._store(request)
            # In a thread, as the files may be large.
            body = await asyncio.to_thread(lambda: json_dumps(make(store)))
        except Exception as error:
            return answer_without_receipt(request, dialect, error, request_id)
        return web.Response(body=body, headers={"content-type": "application/json", OWN_ID: request_id})

    async def _store(self, request: web.Request) -> CaptureStore:
        """Return the captures, if the client may read them. Raises DragomanError."""
        caller = await identify(self._services, request)
        if not may_capture(request, caller):
            message = "captures need an admin's key; without keys, a program of this machine may read them"
            raise DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="admin_required"))
        await self._services.count(caller.key, infer_dialect(request))
        if self._services.instruments.captures is None:
            message = "captures are off: set capture.directory in the configuration"
            raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404))
        return self._services.instruments.captures.store


def _list(store: CaptureStore, limit: str | None) -> Json:
    return {"object": "list", "data": store.list(read_limit(limit, LIST_DEFAULT, LIST_MAX))}


def _get(store: CaptureStore, capture_id: str) -> Json:
    capture = store.get(capture_id)
    if capture is None:
        message = f"there is no capture {capture_id[:100]!a}; those that are too old, or too many, are deleted"
        raise DragomanError(client_failure(FailureKind.NOT_FOUND, message, 404))
    return {**capture.summary, **capture.exchange}
