"""What clients of Responses may ask for and this gateway does not have: told in words that say what to do instead."""

from __future__ import annotations

from aiohttp import web

from dragoman.dialects import Dialect
from dragoman.errors import FailureKind
from dragoman_server.proxy.error_response import client_failure, error_response

_SEND_ALL = "send the whole conversation as `input` with `store: false`"


def not_served(request_id: str, request: web.Request) -> web.Response:
    """Stored responses and conversations, and the endpoints beside them: 404 (mapping §12.3)."""
    path = request.path
    if path.endswith("/compact"):
        said = f"this gateway does not compact conversations; {_SEND_ALL}"
    elif "/conversations" in path:
        said = f"this gateway keeps no conversations; {_SEND_ALL}"
    else:
        said = f"this gateway keeps no responses; {_SEND_ALL}"
    failure = client_failure(FailureKind.NOT_FOUND, f"{request.method} {path}: {said}", 404)
    return error_response(Dialect.RESPONSES, failure, request_id)


def no_websocket(request_id: str, request: web.Request) -> web.Response:
    """`GET /v1/responses`: 426 to who asks for a WebSocket, as agents then fall back to POST at once, else 405."""
    if request.headers.get("upgrade", "").strip().lower() == "websocket":
        message, status = "this gateway has no WebSocket here; use POST with `stream: true`", 426
    else:
        message, status = f"GET is not allowed on {request.path}; allowed: POST", 405
    failure = client_failure(FailureKind.INVALID_REQUEST, message, status)
    response = error_response(Dialect.RESPONSES, failure, request_id)
    response.set_status(status)
    if status == 405:
        response.headers["allow"] = "POST"
    else:
        # Nothing that follows on this connection could be told from the frames that its client wanted to send.
        response.force_close()
    return response
