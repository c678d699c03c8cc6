"""Protection of a gateway without keys against requests that web pages cause.

A browser sends requests to this machine for any page that is open in it. Without keys, they differ from a program's
requests only by what is rejected here: a host name that is not this machine's (a page can point its own name at this
machine: DNS rebinding), an origin that is not the gateway's own, and a content type that a page may send to another
origin without a preflight request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address

from aiohttp import web

from dragoman import DragomanError
from dragoman.errors import FailureKind
from dragoman_server.config.forwarded_endpoints import FORM_TYPE, FORMS
from dragoman_server.proxy.auth import Caller
from dragoman_server.proxy.cors import Cors
from dragoman_server.proxy.error_response import client_failure, unsupported

_KNOWN_MAX = 64
"""Most `Host` headers that are cached as allowed."""


class WebOrigins:
    """The rules. `host` is the address that the gateway listens on; `allowed_hosts` are further names of it."""

    def __init__(self, host: str, allowed_hosts: Sequence[str], cors: Cors) -> None:
        self._any_host = "*" in allowed_hosts
        self._names = {"localhost", plain_host(host), plain_host(socket.gethostname())}
        self._names.update(plain_host(name) for name in allowed_hosts if not name.startswith("*"))
        self._suffixes = (".localhost", *(plain_host(name[1:]) for name in allowed_hosts if name.startswith("*.")))
        self._cors = cors
        self._known: set[str] = set()

    def check(self, request: web.Request) -> None:
        """Raise DragomanError (403, 415) for a request that a web page of another site may have caused."""
        headers = request.headers
        host = headers.get("host", "")
        if not self._any_host and host not in self._known:
            if self._is_ours(host):
                if len(self._known) >= _KNOWN_MAX:
                    self._known.clear()
                self._known.add(host)
            elif not self._is_address(host, request.transport):
                raise _foreign_host(host)
        origin = headers.get("origin")
        if origin is not None:
            if not (is_same_origin(origin, host) or self._cors.allows(origin)):
                raise _foreign_page(f"web pages of {origin[:100]!a}")
        elif headers.get("sec-fetch-site") == "cross-site" and not self._cors.any:
            raise _foreign_page("web pages of other sites")
        content_type = headers.get("content-type")
        if content_type == "application/json" or request.method != "POST" or _is_json(content_type):
            return
        if not _is_expected_form(request):
            raise _wrong_type(headers["content-type"])

    def _is_ours(self, host: str) -> bool:
        """True if a `Host` is a name of this machine or of its loopback address, or an allowed one."""
        name = plain_host(host)
        if not name or name in self._names or name.endswith(self._suffixes):
            return True  # HTTP/1.0 has no Host; browsers always send one
        return is_loopback(name)

    def _is_address(self, host: str, transport: asyncio.BaseTransport | None) -> bool:
        """True if a `Host` is an address, on a connection that did not come over loopback.

        A web page cannot point a name of its own at the gateway and send an address as `Host`.
        """
        try:
            address = ip_address(plain_host(host))
        except ValueError:
            return False
        sockname = transport.get_extra_info("sockname") if transport is not None else None
        local = sockname[0] if isinstance(sockname, tuple) else ""
        return str(address) == local or not is_loopback(local)


def is_local_program(request: web.Request) -> bool:
    """True for a request on this machine's loopback address or a Unix socket, not of another site's web page."""
    origin, transport = request.headers.get("origin"), request.transport
    if transport is None or (origin is not None and not is_same_origin(origin, request.headers.get("host", ""))):
        return False
    sockname = transport.get_extra_info("sockname")
    return is_loopback(sockname[0]) if isinstance(sockname, tuple) else sockname is not None


def plain_host(host: str) -> str:
    """Return a `Host` in lower case, without its port, its brackets and a final dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    return host.removesuffix(".")


def is_loopback(address: str) -> bool:
    """True for an address of this machine that other machines cannot reach."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def is_same_origin(origin: str, host: str) -> bool:
    """True if the page has the gateway's own origin, such as a page of the application that embeds it."""
    scheme, _, where = origin.lower().partition("://")
    return bool(where) and scheme in ("http", "https") and where == host.strip().lower()


def _is_json(content_type: str | None) -> bool:
    """True if the type is JSON, is missing, or is `application/octet-stream`.

    Some HTTP clients of programs send the latter two. Browsers send a body without a type only with an `Origin`, and
    `application/octet-stream` to another site only after a preflight request.
    """
    if content_type is None:
        return True
    essence = content_type.partition(";")[0].strip().lower()
    if essence in ("application/json", "application/octet-stream"):
        return True
    return essence.startswith("application/") and essence.endswith("+json")


def _is_expected_form(request: web.Request) -> bool:
    """True for a form at an endpoint that takes forms. Browsers send one to another site only with an `Origin`."""
    return request.content_type == FORM_TYPE and request.path.rstrip("/").endswith(FORMS)


def _foreign_host(host: str) -> DragomanError:
    message = (
        f"the host name {host[:100]!a} is not known to this gateway, which has no keys and so refuses names that a web"
        " page could have made up: add it to server.allowed_hosts, or set server.keys"
    )
    return DragomanError(client_failure(FailureKind.PERMISSION, message, 403))


def _foreign_page(pages: str) -> DragomanError:
    message = (
        f"{pages} may not use this gateway, which has no keys: add their origin to server.cors_origins, or set"
        " server.keys"
    )
    return DragomanError(client_failure(FailureKind.PERMISSION, message, 403))


def _wrong_type(content_type: str) -> DragomanError:
    message = (
        f"the content-type {content_type[:100]!a} is not JSON, and this gateway has no keys and so refuses what any web"
        " page could send: send content-type: application/json (with curl: -H 'content-type: application/json')"
    )
    return DragomanError(unsupported(message))


def may_capture(request: web.Request, caller: Caller) -> bool:
    """True if a client may ask for captures and read them.

    That is an admin's key, or a program of this machine if no keys are configured.
    """
    return caller.admin if caller.owner else is_local_program(request)
