"""An error becomes a response of the client's own dialect, with its real HTTP status."""

from __future__ import annotations

import os

from aiohttp import web

from dragoman.dialects import Dialect
from dragoman.dialects.codec import CODECS
from dragoman.errors import Failure, FailureKind, FailureOrigin
from dragoman.wire.json_codec import dumps

_UNSUPPORTED = "unsupported_media_type"
SOFTWARE = "dragoman"
"""The `server` header of all replies of `dragoman serve`."""
OWN_ID = "x-dragoman-request-id"
"""Our own id of a request, on every reply: the dialect's header holds the upstream's where it sent one."""
REQUEST_ID = {Dialect.CHAT: "x-request-id", Dialect.MESSAGES: "request-id", Dialect.RESPONSES: "x-request-id"}
"""Where each dialect's SDKs look for the request id."""


def new_request_id() -> str:
    """A fresh request id in the form both vendors use."""
    return f"req_{os.urandom(16).hex()}"


def error_response(client: Dialect, failure: Failure, request_id: str) -> web.Response:
    """The failure in the client's envelope. `failure.headers` (retry-after and kin, translated) go along."""
    status, body = CODECS[client].write_failure(failure, failure.request_id or request_id)
    if failure.code == _UNSUPPORTED:
        status = 415
    headers = {REQUEST_ID[client]: failure.request_id or request_id, OWN_ID: request_id, **failure.headers}
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)


def client_failure(kind: FailureKind, message: str, status: int, *, code: str | None = None) -> Failure:
    """Return the failure of a request that the gateway rejects."""
    return Failure(kind, message, status, code=code, origin=FailureOrigin.CLIENT)


def unsupported(message: str) -> Failure:
    """Return the failure of a body with a type or an encoding that is not accepted: 415 in every dialect."""
    return client_failure(FailureKind.INVALID_REQUEST, message, 415, code=_UNSUPPORTED)


def asked_in(request: web.Request) -> Dialect:
    """The dialect of whoever asks for what is no endpoint of one dialect (mapping §12.3)."""
    return dialect_of(request.path, "anthropic-version" in request.headers)


def dialect_of(path: str, versioned: bool) -> Dialect:
    """The dialect of a path; `versioned` says that the request has an `anthropic-version` header."""
    if versioned or "/v1/messages" in path:
        return Dialect.MESSAGES
    if "/v1/responses" in path or "/v1/conversations" in path:
        return Dialect.RESPONSES
    return Dialect.CHAT
