"""Opens connections to upstreams: DNS lookups, happy eyeballs, tunnels through proxies, TLS.

aiohappyeyeballs, which aiohttp's client uses too, races a host's addresses: uvloop's `create_connection` does not.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence

from aiohappyeyeballs import AddrInfoType, start_connection

from dragoman.aio.few_per_turn import CONNECTS, FewPerTurn
from dragoman.aio.unsent import limit_unsent
from dragoman.aio.upstream.descriptors import descriptor_failure
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.aio.upstream.http11.egress_proxy import EgressProxy
from dragoman.aio.upstream.http11.request_head import Origin
from dragoman.aio.upstream.lookup import addresses_of
from dragoman.errors import UpstreamUnreachable

_ATTEMPT_DELAY = 0.25
"""Seconds between two connection attempts (RFC 8305 §5)."""


class Connector:
    """Connects to origins. `tls` replaces the default TLS settings, for instance with another certificate authority;
    a host's addresses are cached for `dns_seconds`. With `proxy`, every connection is a tunnel through it."""

    __slots__ = ("_addresses", "_connects", "_dns_seconds", "_lookups", "_proxy", "_tls", "lookup", "loop")

    def __init__(self, tls: ssl.SSLContext | None, dns_seconds: float, proxy: EgressProxy | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.lookup = addresses_of
        """Returns the addresses of a host and a port."""
        self._tls = tls
        self._dns_seconds = dns_seconds
        self._proxy = proxy
        self._addresses: dict[Origin, tuple[float, Sequence[AddrInfoType]]] = {}
        """Addresses with the loop's time until which they are valid."""
        self._lookups: dict[Origin, asyncio.Task[Sequence[AddrInfoType]]] = {}
        self._connects = FewPerTurn(CONNECTS)

    async def connect(self, origin: Origin, connection: Connection) -> None:
        """Connect `connection` to `origin`. Raises UpstreamUnreachable, or the failure of `descriptors`."""
        server = origin if self._proxy is None else self._proxy.origin
        try:
            addresses = server.literal() or await self._resolve(server)
            await self._turn()  # many requests may have waited for one lookup
            sock = await start_connection(addresses, happy_eyeballs_delay=_ATTEMPT_DELAY, interleave=1, loop=self.loop)
        except (OSError, UnicodeError, RuntimeError) as error:
            self._addresses.pop(server, None)  # the host may have moved
            if (own := descriptor_failure(error)) is not None:
                raise own from error
            what = "the upstream" if self._proxy is None else "the upstream's proxy"
            raise UpstreamUnreachable(f"cannot connect to {what}: {_reason(error)}") from error
        try:
            await self._turn()  # an upstream may accept many connections at a time
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limit_unsent(sock)
            if self._proxy is not None:
                await self._proxy.open_tunnel(sock, origin)
            tls = self._context() if origin.secure else None
            await self.loop.create_connection(
                lambda: connection, sock=sock, ssl=tls, server_hostname=origin.host.rstrip(".") if tls else None
            )
        except OSError as error:
            sock.close()
            raise UpstreamUnreachable(f"cannot connect to the upstream: {_reason(error)}") from error
        except BaseException:
            sock.close()
            raise

    async def _turn(self) -> None:
        if not self._connects.has_room():
            await self._connects.next_turn()

    def close(self) -> None:
        """Cancel pending lookups."""
        for lookup in self._lookups.values():
            lookup.cancel()

    def _context(self) -> ssl.SSLContext:
        # Created at the first use: loading the certificate authorities takes some ten milliseconds.
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    async def _resolve(self, origin: Origin) -> Sequence[AddrInfoType]:
        cached = self._addresses.get(origin)
        if cached is not None and cached[0] > self.loop.time():
            return cached[1]
        lookup = self._lookups.get(origin)
        if lookup is None:
            lookup = self._lookups[origin] = self.loop.create_task(self._look_up(origin))
            lookup.add_done_callback(lambda done: self._lookup_done(origin, done))
        # Concurrent requests share one lookup; it continues if one of them is cancelled.
        return await asyncio.shield(lookup)

    async def _look_up(self, origin: Origin) -> Sequence[AddrInfoType]:
        return await self.lookup(origin.host, origin.port)

    def _lookup_done(self, origin: Origin, lookup: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        del self._lookups[origin]
        if not lookup.cancelled() and lookup.exception() is None:
            self._addresses[origin] = (self.loop.time() + self._dns_seconds, lookup.result())


def _reason(error: Exception) -> str:
    """Return the reason of a failed connection, for an error message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (SSL_CERT_FILE may name further authorities)"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {getattr(error, 'reason', None) or error} (is it https, and on this port?)"
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)  # asyncio's own message contains an address and no reason
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
