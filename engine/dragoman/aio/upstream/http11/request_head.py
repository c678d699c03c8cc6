"""Encodes request heads: the origin of a URL, the request line, and the headers that belong to the connection."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from aiohappyeyeballs import AddrInfoType

from dragoman.aio.decompress import ACCEPTED
from dragoman.errors import UpstreamUnreachable

_PORTS = {"http": 80, "https": 443}
_CONNECTION_HEADERS = frozenset(
    ("accept-encoding", "connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
     "upgrade")
)  # fmt: skip
"""Headers that describe the framing and encoding on this connection; the caller's are ignored."""
_TARGET = re.compile(r"[!-~]*\Z")
"""Visible ASCII: a host or a request target that needs no quoting."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The server of a URL; each has a pool. `host` is a DNS name or an IP address without brackets."""

    secure: bool
    host: str
    port: int

    def literal(self) -> Sequence[AddrInfoType]:
        """Return the address if `host` is an IP address, else (). IPv6 addresses with a zone need the resolver."""
        try:
            version = ipaddress.ip_address(self.host).version
        except ValueError:
            return ()
        if version == 4:
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self.host, self.port))]
        if "%" in self.host:
            return ()
        return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self.host, self.port, 0, 0))]


def parse_url(url: str, method: str = "POST") -> tuple[Origin, str]:
    """Return the origin of a URL and the first two lines of a request to it.

    Raises UpstreamUnreachable if the URL is not a valid http or https URL.
    """
    try:
        parts = urlsplit(url)
        host, port, scheme = parts.hostname or "", parts.port, parts.scheme.lower()
        default = _PORTS[scheme]
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except (ValueError, KeyError) as error:
        raise UpstreamUnreachable("the upstream's URL is not one of http or https; check its base_url") from error
    if not _TARGET.match(host) or not host:
        raise UpstreamUnreachable("the upstream's URL has no host; check its base_url")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.match(target):
        target = quote(target, safe="!#$%&'()*+,/:;=?@[]~")
    shown = f"[{host.partition('%')[0]}]" if ":" in host else host
    if port not in (None, default):
        shown = f"{shown}:{port}"
    return Origin(scheme == "https", host, port or default), f"{method} {target} HTTP/1.1\r\nhost: {shown}\r\n"


def request_head(start: str, headers: Mapping[str, str], length: int | None, *, stream: bool) -> bytes:
    """Return the complete head. `start` are the lines of `parse_url`, `length` is the body's length in bytes.

    Without a `length` the body is sent in chunks.

    Event streams are requested uncompressed, other responses compressed. Raises ValueError for a header with a line end
    or a NUL; configuration and credentials are checked for these before.
    """
    lines = [start]
    defaults = {"user-agent": "user-agent: dragoman\r\n", "accept": "accept: */*\r\n"}
    for name, value in headers.items():
        lower = name.lower()
        if lower not in _CONNECTION_HEADERS:
            defaults.pop(lower, None)
            lines.append(f"{name}: {value}\r\n")
    lines.extend(defaults.values())
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines.append(f"accept-encoding: {'identity' if stream else ACCEPTED}\r\n{framing}\r\n\r\n")
    text = "".join(lines)
    # Two line ends in `start`, three in the last item, one per header; any other came with a header's value.
    line_ends = len(lines) + 3
    if text.count("\n") != line_ends or text.count("\r") != line_ends or "\0" in text:
        raise ValueError("a header for the upstream has a line end or a NUL in it; nothing was sent")
    return text.encode()


class RequestHeadEncoder:
    """Encodes the heads of the requests to one URL. Most differ from the previous one only in the body's length.

    Headers count as equal only if they are the same mapping object, which must not change: comparing values would take
    a time that reveals something of another client's key.
    """

    __slots__ = ("_before_length", "_headers", "_start", "_stream")

    def __init__(self, start: str) -> None:
        self._start = start
        self._headers: Mapping[str, str] | None = None
        self._stream = False
        self._before_length = b""

    def encode(self, headers: Mapping[str, str], length: int, *, stream: bool) -> bytes:
        """Return the complete head, as `request_head` does."""
        if headers is self._headers and stream is self._stream:
            return b"%b%d\r\n\r\n" % (self._before_length, length)
        head = request_head(self._start, headers, length, stream=stream)
        self._headers, self._stream = headers, stream
        self._before_length = head[: head.rindex(b" ") + 1]
        return head
