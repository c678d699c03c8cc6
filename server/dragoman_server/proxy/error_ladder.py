"""The failure of an exception for the client of a request: the one list of cases that all endpoints share."""

from __future__ import annotations

import logging
from dataclasses import replace

from aiohttp import web

from dragoman import Dialect, DragomanError, Failure
from dragoman.aio import DEFECT, ClientGone, descriptor_failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.proxy.error_response import CLIENT_GONE, error_response
from dragoman_server.proxy.load_shedding import RETRY_AFTER

log = logging.getLogger("dragoman")
_NO_MEMORY = Failure(
    FailureKind.OVERLOADED,
    "the gateway has not enough memory for this request",
    503,
    origin=FailureOrigin.PROXY,
    reason="overloaded",
)


def known(error: Exception) -> Exception:
    """Return an exception as an error of Dragoman's if it is no defect: the system refused memory or a descriptor."""
    if isinstance(error, MemoryError):
        return DragomanError(replace(_NO_MEMORY, headers={"retry-after": RETRY_AFTER}))
    return descriptor_failure(error) or error


def failure_of(error: Exception) -> Failure | None:
    """Return the failure for the client of a request that ended with this exception: `DEFECT` for any but Dragoman's.

    None if the client has disconnected. Errors of the upstream's connection are DragomanErrors. Their tracebacks are
    dropped: those may hold frames that hold the error, which keep three times the request's body until a garbage
    collection.
    """
    if isinstance(error, DragomanError):
        error.__traceback__ = None
        return error.failure
    return None if isinstance(error, ClientGone | ConnectionError) else replace(DEFECT)


def answer_without_receipt(request: web.Request, client: Dialect, error: Exception, request_id: str) -> web.Response:
    """Return the response of a request without a receipt that ended with this exception. A defect is logged."""
    error = known(error)
    if (failure := failure_of(error)) is None:
        return web.Response(status=CLIENT_GONE)
    if not isinstance(error, DragomanError):
        log.exception("%s %s failed by a defect", request_id, request.path)
    return error_response(client, failure, request_id)
