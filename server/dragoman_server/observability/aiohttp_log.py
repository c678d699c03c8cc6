"""The logger of aiohttp's server. A request that is not valid HTTP becomes one line without its content.

aiohttp logs such a request as an error, with a traceback and the bytes that it could not parse, which may hold a key.
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
    """The logger of a server. Requests that it cannot parse are counted in `totals`; their clients get a 400."""

    def __init__(self, totals: Totals) -> None:
        super().__init__(logging.getLogger("aiohttp.server"))
        self._totals = totals

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
        log.info("a request%s cannot be read: %s", f" from {args[0]}" if args else "", why)
