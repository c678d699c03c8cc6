"""`GET /v1/responses`: accepts WebSocket connections, with the key and the origin that a POST needs."""

from __future__ import annotations

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman.gateway import STORED_DIALECT
from dragoman_server.endpoints.websocket.connection import WebSocketConnection
from dragoman_server.endpoints.websocket.history import HistoryBudget
from dragoman_server.observability.rejections import METHOD
from dragoman_server.proxy.error_response import client_failure, error_response
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.steps.admit import admit_request, identify


class ResponsesWebSocket:
    """The endpoint of one gateway. All its connections share the memory for the responses that they continue."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._services = gateway.services
        self._budget = HistoryBudget(gateway.config.server.websocket.total_history)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Serve a WebSocket until it is closed.

        Any other GET gets a 405. If the WebSocket is switched off, the answer is 426, on which clients use POST.
        """
        gateway = self._gateway
        try:
            if not _upgrades(request):
                await identify(gateway.services, request)
                return self._refuse(f"GET is not allowed on {request.path}; allowed: POST", 405, {"allow": "POST"})
            options = gateway.config.server.websocket
            if not options.enabled:
                await identify(gateway.services, request)
                return self._refuse("this gateway has no WebSocket here; use POST with `stream: true`", 426)
            caller = await admit_request(gateway.services, request)
        except DragomanError as error:
            return _last(error_response(STORED_DIALECT, error.failure, gateway.services.new_id()))
        if not web.WebSocketResponse().can_prepare(request):
            return self._refuse("this is no WebSocket handshake of version 13 (RFC 6455 §4)", 400)
        self._budget.limit = options.total_history
        try:
            return await WebSocketConnection(gateway, request, options, self._budget, caller.owner).run()
        except ConnectionError:
            return web.Response(status=499)

    def _refuse(self, message: str, status: int, headers: dict[str, str] | None = None) -> web.Response:
        failure = client_failure(FailureKind.INVALID_REQUEST, message, status)
        failure.reason = METHOD if status == 405 else None
        response = error_response(STORED_DIALECT, failure, self._services.new_id())
        response.set_status(status)
        response.headers.update(headers or {})
        return response if status == 405 else _last(response)


def _upgrades(request: web.Request) -> bool:
    return request.headers.get("upgrade", "").strip().lower() == "websocket"


def _last(response: web.Response) -> web.Response:
    """Make the response the last of its connection: what follows may be WebSocket frames."""
    response.force_close()
    return response
