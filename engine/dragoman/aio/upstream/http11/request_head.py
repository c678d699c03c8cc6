"""The request's head: where it goes, and the lines that are the connection's own business."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from aiohappyeyeballs import AddrInfoType

from dragoman.aio.upstream.http11.decompress import ACCEPTED
from dragoman.errors import UpstreamUnreachable

_PORTS = {"http": 80, "https": 443}
_OURS = frozenset(
    ("accept-encoding", "connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding",
     "upgrade")
)  # fmt: skip
"""Headers that say how this connection frames and encodes: never the caller's."""
_TARGET = re.compile(r"[!-~]*\Z")


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: what connections are kept by. `host` is as DNS wants it, without brackets."""

    secure: bool
    host: str
    port: int

    def literal(self) -> Sequence[AddrInfoType]:
        """The address, where the host is one; an IPv6 address with a zone is left to the resolver."""
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
    """Where a URL leads, and the first two lines of a request there. Raises UpstreamUnreachable for what is no URL."""
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


def request_head(start: str, headers: Mapping[str, str], length: int, *, stream: bool) -> bytes:
    """The whole head behind the lines of `split`. Event streams are asked for as they are, other replies compressed.

    Raises ValueError for a header that would not be one line: configuration and credentials see to that first.
    """
    lines = [start]
    own = {"user-agent": "user-agent: dragoman\r\n", "accept": "accept: */*\r\n"}
    for name, value in headers.items():
        lower = name.lower()
        if lower not in _OURS:
            own.pop(lower, None)
            lines.append(f"{name}: {value}\r\n")
    lines.extend(own.values())
    lines.append(f"accept-encoding: {'identity' if stream else ACCEPTED}\r\ncontent-length: {length}\r\n\r\n")
    text = "".join(lines)
    # Two line ends in `start`, three in the last piece: any other than one for each header came with a header.
    breaks = len(lines) + 3
    if text.count("\n") != breaks or text.count("\r") != breaks or "\0" in text:
        raise ValueError("a header for the upstream has a line end or a NUL in it; nothing was sent")
    return text.encode()


class RequestHeadEncoder:
    """The heads of the requests to one URL: most are like the one before in all but the length.

    Only the same mapping counts as the same headers, and it must not change: to compare them would take a time that
    tells one client about another's key.
    """

    __slots__ = ("_before_length", "_headers", "_start", "_stream")

    def __init__(self, start: str) -> None:
        self._start = start
        self._headers: Mapping[str, str] | None = None
        self._stream = False
        self._before_length = b""

    def encode(self, headers: Mapping[str, str], length: int, *, stream: bool) -> bytes:
        """See `request_head`."""
        if headers is self._headers and stream is self._stream:
            return b"%b%d\r\n\r\n" % (self._before_length, length)
        head = request_head(self._start, headers, length, stream=stream)
        self._headers, self._stream = headers, stream
        self._before_length = head[: head.rindex(b" ") + 1]
        return head
