"""Error responses in the client's dialect, with the real HTTP status."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Final

from aiohttp import web
from multidict import istr

from dragoman import Dialect, ErrorResponse, Failure
from dragoman import error_response as engine_error
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import CLIENT_DIALECTS, DEFAULT_DIALECT

_UNSUPPORTED = "unsupported_media_type"
HOOK = "hook"
"""The `Failure.reason` of an error that a hook raised. Its status is the client's in every dialect."""
CLIENT_GONE = 499
"""Status of a response whose client has disconnected, as in nginx. Only middlewares and access logs see it."""
SOFTWARE = "dragoman"
"""The `server` header of all replies of `dragoman serve`."""
REJECTION: Final = web.ResponseKey("dragoman.rejection", Failure)
"""Where a response to a request without a receipt has its failure, which is logged and counted when it is sent."""
OWN_ID = istr("x-dragoman-request-id")
"""Header with Dragoman's id of a request. The dialect's own header has the upstream's id, if the upstream sent one."""


_SIGNS: Final = sorted(
    [
        (client, facts.version_header, tuple(f"/{facts.version}/{path}" for path in facts.paths))
        for client in CLIENT_DIALECTS
        if (facts := client.facts).version_header or facts.paths
    ],
    key=lambda sign: not sign[1],
)
"""The header and the beginnings of paths by which dialects are recognised. Those with a header come first."""


def new_request_id() -> str:
    """Return a new request id in the form that both vendors use."""
    return f"req_{os.urandom(16).hex()}"


def error_response(client: Dialect, failure: Failure, request_id: str) -> web.Response:
    """Return the response to a request without a receipt, in the error envelope of a dialect.

    It has `failure.headers`, such as retry-after.
    """
    response = web_response(engine_error(client, failure, request_id), client, request_id)
    response[REJECTION] = failure
    return response


def web_response(error: ErrorResponse, client: Dialect, request_id: str) -> web.Response:
    """Return an error response of the engine as an aiohttp response, with Dragoman's request id."""
    name = client.request_id_header
    headers = {name: error.headers.get(name, request_id), OWN_ID: request_id, **error.headers}
    failure, status = error.failure, error.status
    if failure.code == _UNSUPPORTED:
        status = 415
    elif failure.reason == HOOK and 400 <= failure.status < 600:
        status = failure.status  # Messages has fewer
    return web.Response(status=status, body=error.body, content_type="application/json", headers=headers)


def client_failure(kind: FailureKind, message: str, status: int, *, code: str | None = None) -> Failure:
    """Return the failure of a request that the gateway rejects."""
    return Failure(kind, message, status, code=code, origin=FailureOrigin.CLIENT)


def unsupported(message: str) -> Failure:
    """Return the failure of a body with a type or an encoding that is not accepted: 415 in every dialect."""
    return client_failure(FailureKind.INVALID_REQUEST, message, 415, code=_UNSUPPORTED)


def infer_dialect(request: web.Request) -> Dialect:
    """Return the dialect for a request to an endpoint that several dialects share (mapping §12.3)."""
    return dialect_of(request.path, request.headers)


def dialect_of(path: str, headers: Container[str]) -> Dialect:
    """Return the dialect of a path, and of the names of the request's headers."""
    for client, version, paths in _SIGNS:
        if version in headers or any(each in path for each in paths):
            return client
    return DEFAULT_DIALECT
