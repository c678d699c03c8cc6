"""The resolver of aiohttp's client, with a thread for each name."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from dragoman.aio.upstream.lookup import addresses_of

_FLAGS = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class ThreadResolver(AbstractResolver):
    """Looks up names by `addresses_of`. aiohttp's own resolver shares the few threads of the loop."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises OSError."""
        return [
            ResolveResult(
                hostname=host, host=_host_in(address), port=int(address[1]), family=found, proto=proto, flags=_FLAGS
            )
            for found, _, proto, _, address in await addresses_of(host, port, family)
        ]

    async def close(self) -> None:
        """Close nothing: lookups hold no resources."""


def _host_in(address: tuple[str | int, ...]) -> str:
    """Return the host in a socket address, with the interface of an IPv6 address that is valid on one link."""
    scope = address[3] if len(address) > 3 else 0
    return f"{address[0]}%{scope}" if scope else str(address[0])
