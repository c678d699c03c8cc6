"""The logger of aiohttp's server. A request that is not valid HTTP becomes one line without its content.

aiohttp logs such a request as an error, with a traceback and the bytes that it could not parse, which may hold a key.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from aiohttp.http import HttpProcessingError
from aiohttp.web import RequestPayloadError

from dragoman_server.observability.metric_families import MALFORMED, Totals
from dragoman_server.observability.rejections import LINES_MAX
from dragoman_server.observability.throttled_log import LinesPerMinute

log = logging.getLogger("dragoman")
_TLS = "Received HTTPS traffic on an HTTP port"


class ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of a server. Requests that it cannot parse are counted in `totals`; their clients get a 400."""

    def __init__(self, totals: Totals) -> None:
        super().__init__(logging.getLogger("aiohttp.server"))
        self._totals = totals
        self._lines = LinesPerMinute(LINES_MAX, time.monotonic)

    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        """Log one record of aiohttp's."""
        error = more.get("exc_info")
        if isinstance(error, RequestPayloadError):  # in a body that was not read: the response has been sent
            error = error.__cause__ or error
        elif not isinstance(error, HttpProcessingError):
            super().log(level, msg, *args, **more)
            return
        self._totals.add(MALFORMED)
        why = "https on a port of http" if getattr(error, "message", "") == _TLS else type(error).__name__
        if self._lines.take():
            others = self._lines.suppressed()
            note = f"; {others} more cannot, of which no line was written" if others else ""
            log.info("a request%s cannot be read: %s%s", f" from {args[0]}" if args else "", why, note)
