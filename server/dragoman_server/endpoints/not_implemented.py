"""Error responses of the Responses endpoints that Dragoman does not have. Each message states an alternative."""

from __future__ import annotations

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.gateway import STORED_DIALECT
from dragoman_server.proxy.error_response import client_failure, error_response
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.steps.admit import identify

_INSTEAD = (
    "send the whole conversation as `input` with `store: false`, or set state.kind in the configuration "
    '(several workers need a shared store: "sqlite", "redis" or "postgresql")'
)


class NotImplementedEndpoints:
    """The paths of one gateway that are the API's, but have no endpoint here."""

    def __init__(self, gateway: Gateway) -> None:
        self._services = gateway.services

    async def get(self, request: web.Request) -> web.Response:
        """Return a 404. It reveals nothing, but every path below /v1 requires the key, so that none is forgotten."""
        request_id = self._services.new_id()
        try:
            await identify(self._services, request)
        except DragomanError as error:
            return error_response(STORED_DIALECT, error.failure, request_id)
        return stored_objects(request_id, request, stores=self._services.responses.stores)


def stored_objects(request_id: str, request: web.Request, *, stores: bool = False) -> web.Response:
    """Return the 404 for stored responses and conversations, and for related endpoints (mapping §12.3).

    `stores` is True if the gateway has the other endpoints of stored responses.
    """
    path = request.path
    if stores:
        problem = "this gateway has no such endpoint of stored responses and conversations"
    elif "/conversations" in path:
        problem = f"this gateway keeps no conversations; {_INSTEAD}"
    else:
        problem = f"this gateway keeps no responses; {_INSTEAD}"
    failure = client_failure(FailureKind.NOT_FOUND, f"{request.method} {path}: {problem}", 404)
    return error_response(STORED_DIALECT, failure, request_id)
