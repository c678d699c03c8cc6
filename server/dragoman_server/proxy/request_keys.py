"""Marks of requests that the gateway makes: turns of a connection, and requests that outlive their connection."""

from __future__ import annotations

from typing import Final, NamedTuple

from aiohttp import web


class Continued(NamedTuple):
    """The response `previous` that a request continues whose input has the whole conversation.

    The last `own` items of the input are the request's own. Connections send such requests, as they keep what their
    clients continue.
    """

    previous: str
    own: int


CLIENT_REQUEST: Final = web.RequestKey("dragoman.client_request", web.Request)
"""Where a request that outlives its connection has the one on the connection."""
CONTINUED: Final = web.RequestKey("dragoman.continued", Continued)
"""Where such a request has it."""
COMPACT: Final = web.RequestKey("dragoman.compact", bool)
"""Set for requests to `POST /v1/responses/compact`. A body that passes through goes to the upstream's own endpoint."""
