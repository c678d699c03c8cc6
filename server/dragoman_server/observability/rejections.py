"""Requests that are rejected before they have a receipt: wrong paths and methods, and most endpoints without a model.

Each is counted and has a line in the log, unless there are too many. The line has the path without its query, and no
secrets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dragoman import Failure
from dragoman.errors import FailureOrigin
from dragoman.gateway import quote, redact
from dragoman_server.observability.access_log import error_word, limit_of
from dragoman_server.observability.known_secrets import configured_secrets
from dragoman_server.observability.logs import log_request
from dragoman_server.observability.metric_families import GATEWAY_ERRORS, REJECTED, Totals
from dragoman_server.observability.throttled_log import LinesPerMinute

log = logging.getLogger("dragoman")
LINES_MAX: Final = 100
"""Most lines in one minute."""
_METHOD_MAX: Final = 20
PATH: Final = "path"
METHOD: Final = "method"
"""The reasons of failures for a path that does not exist, and a method that it does not have."""
_PROBE: Final = "/api/hello"
"""The path of a HEAD that Claude Code sends again and again, to find out if the server is there: it has no line."""
_LOGGED: Final = "defect"
"""The reason of failures that were logged with a traceback."""


@dataclass(slots=True)
class RejectionLine:
    """One rejected request, passed to the logger as the message, as a `RequestLine` is."""

    request_id: str
    method: str
    path: str
    status: int
    error: str
    cause: str
    note: str
    key: str
    limit: str

    def __str__(self) -> str:
        key = f" key={self.key}" if self.key else ""
        limit = f" limit={self.limit}" if self.limit else ""
        text = f"{self.request_id} {self.method} {self.path} rejected status={self.status}{key}{limit}: {self.cause}"
        return f"{text.lstrip()}{self.note}"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        fields = {
            "event": "request",
            "request_id": self.request_id,
            "ended": "rejected",
            "status": self.status,
            "method": self.method,
            "path": self.path,
            "error": self.error,
            "message": f"{self.cause}{self.note}",
        }
        return fields | {name: text for name, text in (("key", self.key), ("limit", self.limit)) if text}


class Rejections:
    """The rejected requests of one gateway, which are counted in `totals`. `clock` returns seconds from any origin."""

    def __init__(self, totals: Totals, clock: Callable[[], float] = time.monotonic) -> None:
        self._totals = totals
        self._lines = LinesPerMinute(LINES_MAX, clock)

    def record(
        self, method: str, path: str, status: int, failure: Failure, request_id: str, caller: Callable[[], str]
    ) -> None:
        """Count and log a request that was answered with the failure.

        `caller` returns the name of its key. It is called if a limit of the key is the reason.
        """
        reason = failure.reason or failure.kind
        self._totals.add(REJECTED, (reason,))
        if failure.origin is FailureOrigin.PROXY:
            self._totals.add(GATEWAY_ERRORS, (reason,))
        probe = method == "HEAD" and path.endswith(_PROBE)
        if reason == _LOGGED or probe or not log.isEnabledFor(logging.INFO) or not self._lines.take():
            return
        more = self._lines.suppressed()
        note = f"; {more} more were rejected, of which no line was written" if more else ""
        method, path = quote(method, _METHOD_MAX), _shown(path)
        limit = limit_of(failure)
        facts = error_word(failure), _shown(failure.message), note, caller() if limit else "", limit
        log_request(logging.INFO, RejectionLine(request_id, method, path, status, *facts))


def _shown(text: str) -> str:
    return quote(redact(text, configured_secrets()))
