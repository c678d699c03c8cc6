"""What aiohttp's server has to say, but for requests that are no HTTP: those are a line each, without a word of theirs.

aiohttp tells them as errors, with a traceback and what it could not read: perhaps a header with somebody's key.
"""

from __future__ import annotations

import logging
from typing import Any

from aiohttp.http import HttpProcessingError
from aiohttp.web import RequestPayloadError

from dragoman_server.observability.metric_families import MALFORMED, Totals

log = logging.getLogger("dragoman")
_TLS = "Received HTTPS traffic on an HTTP port"


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of a server. What it cannot read is counted in `totals`; the client gets a 400 in any case."""

    def __init__(self, totals: Totals) -> None:
        super().__init__(logging.getLogger("aiohttp.server"))
        self._totals = totals

    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        """One record of aiohttp's."""
        error = more.get("exc_info")
        if isinstance(error, RequestPayloadError):  # in a body that nobody wanted: the reply has been sent
            error = error.__cause__ or error
        elif not isinstance(error, HttpProcessingError):
            super().log(level, msg, *args, **more)
            return
        self._totals.add(MALFORMED)
        why = "https on a port of http" if getattr(error, "message", "") == _TLS else type(error).__name__
        log.info("a request%s cannot be read: %s", f" from {args[0]}" if args else "", why)
