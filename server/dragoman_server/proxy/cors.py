"""Cross-origin resource sharing (CORS): the headers by which web pages of other origins may use the gateway.

It is off unless `server.cors_origins` names origins. Without these headers a browser does not show a reply to the page
that requested it, and sends no JSON to another origin at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web

from dragoman.errors import FailureKind
from dragoman_server.proxy.error_response import client_failure, error_response, infer_dialect

MAX_AGE = 600
"""Seconds that a browser may cache the response to a preflight request."""
_HEADER_NAMES = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+(?:[ \t]*,[ \t]*[-!#$%&'*+.^_`|~0-9A-Za-z]+)*\Z")


class Cors:
    """The allowed origins, and the headers for them.

    `origins` are written as a browser sends them (`https://chat.example.com`). In an origin, `*` stands for any
    characters but a slash; alone it allows every origin.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self.any = "*" in origins
        patterns = ["[^/]*".join(map(re.escape, origin.lower().split("*"))) for origin in origins]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def allows(self, origin: str) -> bool:
        """True if a page of this origin may use the gateway."""
        return self.any or (self._pattern is not None and self._pattern.fullmatch(origin.lower()) is not None)

    def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers by which the browser shows a response to the page that requested it."""
        if not self.any:
            response.headers.add("vary", "Origin")  # a cache must not return one origin's response to another
        origin = request.headers.get("origin")
        if origin is not None and self.allows(origin):
            response.headers["access-control-allow-origin"] = "*" if self.any else origin
            response.headers["access-control-expose-headers"] = "*"

    async def preflight(self, request: web.Request, request_id: str) -> web.Response:
        """Return the response to `OPTIONS`, which a browser sends before a request to another origin."""
        origin = request.headers.get("origin")
        if origin is None or not self.allows(origin):
            subject = f"the origin {origin[:100]!a} is" if origin is not None else "a preflight without an Origin is"
            message = f"{subject} not allowed: server.cors_origins names the web pages that may use this gateway"
            return error_response(
                infer_dialect(request), client_failure(FailureKind.PERMISSION, message, 403), request_id
            )
        resource = request.match_info.route.resource
        deletes = resource is not None and any(route.method == "DELETE" for route in resource)
        methods = "GET, HEAD, POST, DELETE" if deletes else "GET, HEAD, POST"
        headers = {"access-control-allow-methods": methods, "access-control-max-age": str(MAX_AGE)}
        wanted = request.headers.get("access-control-request-headers", "").strip()
        if _HEADER_NAMES.match(wanted):
            headers["access-control-allow-headers"] = wanted
        return web.Response(status=204, headers=headers)
