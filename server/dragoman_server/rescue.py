"""An error becomes a response of the client's own dialect, with its real HTTP status."""

from __future__ import annotations

from aiohttp import web

from dragoman.directions import CODECS
from dragoman.errors import Failure
from dragoman.jsontext import dumps
from dragoman.protocols import Dialect

REQUEST_ID = {Dialect.CHAT: "x-request-id", Dialect.MESSAGES: "request-id", Dialect.RESPONSES: "x-request-id"}
"""Where each dialect's SDKs look for the request id."""


def error_response(client: Dialect, failure: Failure, request_id: str) -> web.Response:
    """The failure in the client's envelope. `failure.headers` (retry-after and kin, translated) go along."""
    status, body = CODECS[client].write_failure(failure, failure.request_id or request_id)
    headers = {REQUEST_ID[client]: failure.request_id or request_id, **failure.headers}
    return web.Response(status=status, body=dumps(body), content_type="application/json", headers=headers)
