"""The rules for the use of the console, which shows the requests of all clients.

A page presents a key in a header, so that no other page can use it: there is no cookie. Without keys the console can
only be used from this machine itself, by the console's own page.
"""

from __future__ import annotations

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.error_response import client_failure
from dragoman_server.proxy.web_origins import is_loopback, is_same_origin, plain_host
from dragoman_server.services import Services
from dragoman_server.steps.admit import identify

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers of proxies, whose clients may be anywhere."""


async def check_access(services: Services, request: web.Request) -> Caller:
    """Return the client of a request to the console. Raises DragomanError (401, 403) if it may not use it."""
    _check_own_page(request)
    caller = await identify(services, request)
    caller.require_admin()
    if caller.principal is not None:
        if not caller.principal.admin:
            raise _forbidden("this user may not open the console: the hook `authorize` returns admin = False for it")
    elif not services.config.requires_key:
        _check_local(request)
    return caller


def _check_own_page(request: web.Request) -> None:
    """Raise DragomanError (403) for a request of another page. `server.cors_origins` does not matter here."""
    headers = request.headers
    site = headers.get("sec-fetch-site")
    if site is not None:
        own = site in ("same-origin", "none")
    else:
        # Browsers send Sec-Fetch-Site only to https and to this machine. Programs send neither header.
        origin = headers.get("origin")
        own = origin is None or is_same_origin(origin, headers.get("host", ""))
    if not own:
        raise _forbidden("only the console's own page may use this endpoint: open /ui of this gateway")


def _check_local(request: web.Request) -> None:
    """Raise DragomanError (403) for a request that may come from another machine."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    host = plain_host(request.headers.get("host", ""))
    local = isinstance(peer, tuple) and is_loopback(peer[0])
    named = host == "localhost" or host.endswith(".localhost") or is_loopback(host)
    if not (local and named) or any(name in request.headers for name in _FORWARDED):
        raise _forbidden(
            "this gateway has no keys, so its console can be opened only on its own machine, as http://localhost: set"
            " server.keys, or a named key with admin = true, and enter it in the console"
        )


def _forbidden(message: str) -> DragomanError:
    return DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="console_forbidden"))
