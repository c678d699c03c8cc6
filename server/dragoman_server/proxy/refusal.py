"""Error statuses of upstreams: their bodies are read once, for the next attempt and for the client's response."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from dragoman import ErrorResponse, Failure, UpstreamError
from dragoman.aio import UpstreamResponse
from dragoman.gateway import read_error
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.read_response import ReadResponse
from dragoman_server.routing.response_issuers import ELSEWHERE
from dragoman_server.scope import RequestScope

_UNKNOWN: Final = (400, 404)
"""Statuses of an upstream that does not have what a request continues."""


async def read_refusal(response: UpstreamResponse, scope: RequestScope) -> tuple[ReadResponse, Failure]:
    """Read the body of an error status, and the failure in it: in a thread if it is long.

    A body that breaks off counts as empty, since clients decide by the status whether to retry.
    """
    if isinstance(response, ReadResponse) and response.failure is not None:
        return response, response.failure
    translation = scope.translation
    context, dialect = translation.context, translation.direction.upstream.dialect
    try:
        body = await response.read(context.limits.reply_body)
    except UpstreamError:
        body = b""
    job = partial(read_error, dialect, response.status, body, response.headers, secrets=context.secrets)
    failure = await compute(len(body), job, scope.receipt.owner)
    return ReadResponse(response, body, failure), failure


async def write_refusal(response: UpstreamResponse, scope: RequestScope) -> ErrorResponse:
    """Return the client's response for an upstream's error status."""
    translation = scope.translation
    read, failure = await read_refusal(response, scope)
    body = await read.read(translation.context.limits.reply_body)
    if scope.unknown is not None and read.status in _UNKNOWN and scope.unknown.id in failure.message:
        # The upstream's own text would not let its client know what to set.
        text = f"{failure.message.rstrip('.')}. {ELSEWHERE}"
        failure, body = replace(failure, message=text, param=scope.unknown.field), b""
    job = partial(translation.error, read.status, body, read.headers, failure=failure)
    return await compute(len(body), job, scope.receipt.owner)
