"""The end of a request without a complete reply of an upstream: its response, its log line and its receipt."""

from __future__ import annotations

import logging

from aiohttp import web

from dragoman import DragomanError, Failure, error_response
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.observability.access_log import OWN_ERRORS, cause_of, request_line, without_reply
from dragoman_server.observability.logs import log_request
from dragoman_server.proxy.error_ladder import failure_of, known
from dragoman_server.proxy.error_response import CLIENT_GONE, web_response
from dragoman_server.proxy.reply_headers import add_loss_header
from dragoman_server.receipt import ended_by
from dragoman_server.scope import RequestScope

log = logging.getLogger("dragoman")


async def answer_failure(scope: RequestScope, error: Exception) -> web.Response:
    """Return the response of a request that failed before its reply began, and complete its receipt.

    The receipt of a client that has disconnected stays open.
    """
    error = known(error)
    if (failure := failure_of(error)) is None:
        return web.Response(status=CLIENT_GONE)
    if isinstance(error, DragomanError):
        return _answer_error(scope, await _count_rejected(scope, error))
    return _answer_defect(scope, failure)


def _answer_error(scope: RequestScope, error: DragomanError) -> web.Response:
    """`error.failure` becomes the failure without secrets."""
    receipt, failure, ended = scope.receipt, error.failure, "rejected"
    if receipt.translation is None:
        response = _own_response(scope, failure)
    else:
        written = receipt.translation.error_of(failure)
        failure = error.failure = written.failure
        ended = ended_by(failure)
        response = _complete(scope, web_response(written, receipt.client, receipt.request_id))
    level, note = scope.warnings.level(receipt.provider, failure)
    if log.isEnabledFor(level):
        summary, cause = without_reply(receipt, ended), cause_of(receipt, error, failure)
        line = request_line(
            receipt, summary, ended, response.status, scope.seconds(), error=failure, cause=cause, note=note
        )
        log_request(level, line)
    scope.end(ended, response.status, failure, ours=isinstance(error, OWN_ERRORS))
    return response


def _answer_defect(scope: RequestScope, failure: Failure) -> web.Response:
    """Log the current exception, which is a defect of Dragoman, and return a response without its details."""
    receipt = scope.receipt
    response = _own_response(scope, failure)
    summary = without_reply(receipt, "failed by a defect")
    log.exception(request_line(receipt, summary, "failed", response.status, scope.seconds(), error=failure))
    scope.end("failed", response.status, failure, ours=True)
    return response


def end_abandoned(scope: RequestScope) -> None:
    """End a request whose client has disconnected before the reply."""
    receipt = scope.receipt
    if log.isEnabledFor(logging.INFO):
        how = "abandoned" if receipt.endpoint else "abandoned before the reply"
        summary = without_reply(receipt, how)
        log_request(logging.INFO, request_line(receipt, summary, "abandoned", CLIENT_GONE, scope.seconds()))
    scope.end("abandoned", CLIENT_GONE)


async def _count_rejected(scope: RequestScope, error: DragomanError) -> DragomanError:
    """Count a request that was rejected as wrong before its limits were checked. Return the error for its client.

    Else a client could send any number of them.
    """
    wrong = error.failure.origin is FailureOrigin.CLIENT and error.failure.kind is not FailureKind.RATE_LIMIT
    if wrong and scope.claim is None:
        try:
            await scope.services.count(scope.caller.key, scope.receipt.client)
        except DragomanError as limited:
            return limited.with_traceback(None)
    return error


def _own_response(scope: RequestScope, failure: Failure) -> web.Response:
    receipt = scope.receipt
    written = error_response(receipt.client, failure, receipt.request_id)
    return _complete(scope, web_response(written, receipt.client, receipt.request_id))


def _complete(scope: RequestScope, response: web.Response) -> web.Response:
    add_loss_header(response.headers, scope.receipt.losses)
    if scope.recording is not None:
        scope.recording.replied_whole(response)
    return response
