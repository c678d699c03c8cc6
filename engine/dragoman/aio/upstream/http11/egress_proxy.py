"""Tunnels through a proxy: HTTP's CONNECT (RFC 9110 §9.3.6), or SOCKS version 5 (RFC 1928, RFC 1929).

The proxy resolves the upstream's name. What follows in the tunnel, TLS too, is between the transport and the upstream.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from base64 import b64encode
from typing import Final
from urllib.parse import unquote, urlsplit

from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.errors import UpstreamUnreachable

_HEAD_MAX: Final = 16 * 1024
_TEXT_MAX: Final = 255
"""Most bytes of a user and of a password (RFC 1929 §2)."""
_SOCKS: Final = frozenset(("socks5", "socks5h"))
_NO_AUTH, _PASSWORD, _NONE_ACCEPTED = 0, 2, 0xFF
_ADDRESS_LENGTHS: Final = {1: 4, 4: 16}
_NAME: Final = 3
_REPLIES: Final = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}
"""The meanings of a SOCKS reply (RFC 1928 §6)."""


class EgressProxy:
    """One proxy: `http://USER:PASSWORD@HOST:PORT`, or `socks5://…`. Raises ValueError for another URL.

    Its `repr` and its errors have no password.
    """

    __slots__ = ("_password", "_user", "is_socks", "origin")

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", *_SOCKS) or not parts.hostname or not parts.port:
            raise ValueError("expected http://HOST:PORT or socks5://HOST:PORT")
        self.origin = Origin(False, parts.hostname, parts.port)
        """The server of the proxy."""
        self.is_socks = parts.scheme in _SOCKS
        """True for SOCKS, False for HTTP."""
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        if max(len(self._user.encode()), len(self._password.encode())) > _TEXT_MAX:
            raise ValueError(f"the user and the password may have {_TEXT_MAX} bytes each")

    def __repr__(self) -> str:
        return f"<EgressProxy {'socks5' if self.is_socks else 'http'} {self.origin.host}:{self.origin.port}>"

    async def open_tunnel(self, sock: socket.socket, target: Origin) -> None:
        """Make a connection to the proxy one to `target`. Raises UpstreamUnreachable, and OSError if it breaks."""
        stream = _Handshake(sock)
        if self.is_socks:
            await self._open_by_socks(stream, target)
        else:
            await self._open_by_connect(stream, target)

    async def _open_by_connect(self, stream: _Handshake, target: Origin) -> None:
        host = f"[{target.host}]" if ":" in target.host else target.host
        lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"host: {host}:{target.port}"]
        if self._user:
            credentials = b64encode(f"{self._user}:{self._password}".encode()).decode()
            lines.append(f"proxy-authorization: Basic {credentials}")
        await stream.send("\r\n".join((*lines, "", "")).encode())
        head = await stream.read_until(b"\r\n\r\n", _HEAD_MAX)
        words = head.split(b"\r\n", 1)[0].split(b" ", 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            raise _refused("answered with something that is not HTTP")
        status = int(words[1])
        if not 200 <= status < 300:
            hint = ": it requires a user and a password" if status == 407 else ""
            raise _refused(f"answered the CONNECT with {status}{hint}")

    async def _open_by_socks(self, stream: _Handshake, target: Origin) -> None:
        method = _PASSWORD if self._user else _NO_AUTH
        await stream.send(bytes((5, 1, method)))
        version, chosen = await stream.read(2)
        if version != 5:
            raise _refused("answered with something that is not SOCKS version 5")
        if chosen != method:
            hint = " (no user and password are configured)" if not self._user else ""
            raise _refused(f"accepts no authentication method of the gateway{hint}")
        if method == _PASSWORD:
            user, password = self._user.encode(), self._password.encode()
            await stream.send(b"\x01%c%b%c%b" % (len(user), user, len(password), password))
            if (await stream.read(2))[1] != 0:
                raise _refused("refused the user and the password")
        await stream.send(b"\x05\x01\x00" + _address(target.host) + target.port.to_bytes(2, "big"))
        version, reply, _, kind = await stream.read(4)
        if version != 5 or reply:
            raise _refused(f"could not connect: {_REPLIES.get(reply, f'reply {reply}')}")
        length = _ADDRESS_LENGTHS[kind] if kind in _ADDRESS_LENGTHS else (await stream.read(1))[0]
        await stream.read(length + 2)  # the address that the proxy connects from


class _Handshake:
    """Reads and writes on a socket that does not block, without a byte more than the handshake has."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._sock, data)

    async def read(self, length: int) -> bytes:
        """Return exactly so many bytes. Raises UpstreamUnreachable if the proxy closes the connection before."""
        data = b""
        while len(data) < length:
            piece = await self._loop.sock_recv(self._sock, length - len(data))
            if not piece:
                raise _refused("closed the connection")
            data += piece
        return data

    async def read_until(self, end: bytes, limit: int) -> bytes:
        """Return all bytes up to `end`, one at a time: those after it belong to the tunnel."""
        data = bytearray()
        while not data.endswith(end):
            data += await self.read(1)
            if len(data) > limit:
                raise _refused("answered with a head that is too long")
        return bytes(data)


def _address(host: str) -> bytes:
    """Return an address as SOCKS has it: the bytes of an IP address, or a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("ascii")
        if len(name) > 255:
            raise _refused("takes no host name of more than 255 characters") from None
        return bytes((_NAME, len(name))) + name
    return bytes((1 if address.version == 4 else 4,)) + address.packed


def _refused(what: str) -> UpstreamUnreachable:
    return UpstreamUnreachable(f"cannot connect to the upstream: its proxy {what}")
