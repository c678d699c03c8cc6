"""The end of a request without a complete reply of an upstream: its response, its log line and its receipt."""

from __future__ import annotations

import logging
from dataclasses import replace

from aiohttp import web

from dragoman import DragomanError, Failure, error_response
from dragoman.aio import DEFECT
from dragoman_server.observability.access_log import OWN_ERRORS, cause_of, request_line, without_reply
from dragoman_server.observability.logs import log_request
from dragoman_server.observability.receipts import Receipt, ended_by
from dragoman_server.observability.throttled_log import UpstreamWarnings
from dragoman_server.proxy.error_response import CLIENT_GONE, web_response
from dragoman_server.proxy.exchange import add_loss_header

log = logging.getLogger("dragoman")


def answer_error(receipt: Receipt, error: DragomanError, warnings: UpstreamWarnings) -> web.Response:
    """Return the response of a request that failed before its reply began.

    `error.failure` becomes the failure without secrets.
    """
    failure, ended = error.failure, "rejected"
    if receipt.translation is None:
        response = _own_response(receipt, failure)
    else:
        written = receipt.translation.error_of(failure)
        failure = error.failure = written.failure
        ended = ended_by(failure)
        response = _complete(receipt, web_response(written, receipt.client, receipt.request_id))
    level, note = warnings.level(receipt.provider, failure)
    if log.isEnabledFor(level):
        summary, cause = without_reply(receipt, ended), cause_of(receipt, error, failure)
        status = response.status
        log_request(level, request_line(receipt, summary, ended, status, error=failure, cause=cause, note=note))
    receipt.end(ended, response.status, failure, ours=isinstance(error, OWN_ERRORS))
    return response


def answer_defect(receipt: Receipt) -> web.Response:
    """Log the current exception, which is a defect of Dragoman, and return a response without its details."""
    failure = replace(DEFECT)
    response = _own_response(receipt, failure)
    summary = without_reply(receipt, "failed by a defect")
    log.exception(request_line(receipt, summary, "failed", response.status, error=failure))
    receipt.end("failed", response.status, failure, ours=True)
    return response


def end_abandoned(receipt: Receipt, how: str) -> None:
    """End a request whose client has disconnected. `how` is the word or clause for the log line."""
    if log.isEnabledFor(logging.INFO):
        summary = without_reply(receipt, how)
        log_request(logging.INFO, request_line(receipt, summary, "abandoned", CLIENT_GONE))
    receipt.end("abandoned", CLIENT_GONE)


def _own_response(receipt: Receipt, failure: Failure) -> web.Response:
    written = error_response(receipt.client, failure, receipt.request_id)
    return _complete(receipt, web_response(written, receipt.client, receipt.request_id))


def _complete(receipt: Receipt, response: web.Response) -> web.Response:
    add_loss_header(response.headers, receipt.losses)
    if receipt.capture is not None:
        receipt.capture.replied_whole(response)
    return response
