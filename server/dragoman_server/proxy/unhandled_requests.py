"""Error responses to requests that reach no handler.

They cannot be parsed as HTTP, arrive too slowly, or come on a connection above the limit. Each response is in the
dialect of the endpoint, if the beginning of the request names one.
"""

from __future__ import annotations

import logging
import re
import sys
import time

from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong

from dragoman import Dialect, Failure, error_response
from dragoman.aio import BadVersion, ConnectionLimits, HeadTimeout, PlainResponse, TooManyConnections
from dragoman.errors import FailureKind
from dragoman_server.config.schema import Server
from dragoman_server.observability.metric_families import REFUSED_CONNECTIONS, Totals
from dragoman_server.proxy.error_response import OWN_ID, SOFTWARE, dialect_of, new_request_id

log = logging.getLogger("dragoman")
_WARN_EVERY = 10.0
"""Seconds between two lines of the log about refused connections: a flood of them must not flood the log."""
_VERSION_2 = re.compile(rb"PRI \* HTTP/2")
_KINDS = {500: FailureKind.API, 503: FailureKind.OVERLOADED, 504: FailureKind.TIMEOUT}


def connection_limits(server: Server, totals: Totals) -> ConnectionLimits:
    """Return the limits on the connections of one process. Refused connections are counted in `totals`."""
    timeouts = server.timeouts
    return ConnectionLimits(
        timeouts.head,
        timeouts.keep_alive,
        timeouts.write,
        server.max_connections or _half_the_descriptors(),
        server.max_connections_per_address,
        Unhandled(totals),
    )


def _half_the_descriptors() -> int:
    """Return half of the number of files that this process may open, as each stream has an upstream connection, too."""
    if sys.platform == "win32":
        return 0
    import resource  # not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else max(1, soft // 2)


class Unhandled:
    """Builds the responses. Refused connections are counted in `totals`."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._next_warning = 0.0

    def __call__(self, error: HttpProcessingError, start: bytes) -> PlainResponse:
        """Return the response to a request whose first bytes are `start`."""
        status, message = _status_and_message(error, start)
        headers = {}
        if isinstance(error, TooManyConnections):
            headers["retry-after"] = "1"
            self._count(error)
        dialect = _dialect(start)
        request_id = new_request_id()
        kind = _KINDS.get(status, FailureKind.INVALID_REQUEST)
        failure = Failure(kind, message, status)
        headers |= {
            "content-type": "application/json",
            "server": SOFTWARE,
            dialect.request_id_header: request_id,
            OWN_ID: request_id,
        }
        return PlainResponse(status, headers, error_response(dialect, failure, request_id).body)

    def _count(self, error: TooManyConnections) -> None:
        self._totals.add(REFUSED_CONNECTIONS, (error.limit,))
        now = time.monotonic()
        if now >= self._next_warning:
            self._next_warning = now + _WARN_EVERY
            log.warning("connections are refused: there are more than server.%s allows", error.limit)


def _status_and_message(error: HttpProcessingError, start: bytes) -> tuple[int, str]:
    """Return status and message. aiohttp's messages are shortened: they quote the request, which may hold a key."""
    words = " ".join(re.split(r":?\n\n|: b'|: bytearray", error.message)[0].split()).rstrip(" .")
    if isinstance(error, TooManyConnections):
        return 503, "the gateway has as many connections as it may have; try again"
    if isinstance(error, HeadTimeout):
        return 408, f"{words} (timeouts.head); send the request again"
    if isinstance(error, LineTooLong):
        if b"\n" in start:
            return 431, "a header is too long: one may have 8,190 bytes"
        return 414, "the request's path and query are too long: they may have 8,190 bytes"
    if "oo many headers" in words:
        return 431, "there are too many headers: a request may have 128"
    if isinstance(error, BadVersion):
        return 505, words
    if _VERSION_2.match(start):
        return 505, "HTTP/2 is not supported: send HTTP/1.1"
    if error.code >= 500:
        return error.code, words
    return 400, f"the request cannot be read as HTTP: {words}"


def _dialect(start: bytes) -> Dialect:
    line, _, headers = start.partition(b"\n")
    words = line.split(b" ", 2)
    path = words[1].partition(b"?")[0].decode("latin-1") if len(words) > 1 else ""
    names = [line.partition(b":")[0].strip().decode("latin-1") for line in headers.lower().splitlines()]
    return dialect_of(path, names)
