"""An error becomes a response of the client's own dialect, with its real HTTP status."""

from __future__ import annotations

from aiohttp import web

from dragoman.directions import CODECS
from dragoman.errors import Failure
from dragoman.jsontext import dumps
from dragoman.protocols import Dialect

OWN_ID = "x-dragoman-request-id"
"""Our own id of a request, on every reply: the dialect's header holds the upstream's where it sent one."""
REQUEST_ID = {Dialect.CHAT: "x-request-id", Dialect.MESSAGES: "request-id", Dialect.RESPONSES: "x-request-id"}
"""Where each dialect's SDKs look for the request id."""


def error_response(client: Dialect, failure: Failure, request_id: str) -> web.Response:
    """The failure in the client's envelope. `failure.headers` (retry-after and kin, translated) go along."""
    status, body = CODECS[client].write_failure(failure, failure.request_id or request_id)
    headers = {REQUEST_ID[client]: failure.request_id or request_id, OWN_ID: request_id, **failure.headers}
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)


def asked_in(request: web.Request) -> Dialect:
    """The dialect of whoever asks for what is no endpoint of one dialect (mapping §12)."""
    if "anthropic-version" in request.headers or "/v1/messages" in request.path:
        return Dialect.MESSAGES
    if "/v1/responses" in request.path or "/v1/conversations" in request.path:
        return Dialect.RESPONSES
    return Dialect.CHAT
