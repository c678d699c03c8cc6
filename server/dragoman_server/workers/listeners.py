"""The listening sockets of an address, which several processes may share.

A gateway of one process binds its own. A supervisor binds them for all workers, which inherit them, and closes none
before the end: closing a listening socket resets the connections in its accept queue. A worker that exits only stops
accepting, and the next worker that accepts from the same socket takes over the queue.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys

from dragoman.aio import limit_unsent
from dragoman_server.observability.metric_families import ACCEPT_QUEUE, Totals

BALANCED = sys.platform == "linux" and hasattr(socket, "SO_REUSEPORT")
"""True if the system spreads connections over several sockets of one address (SO_REUSEPORT on Linux). On other systems
the option is missing, or the socket bound last receives all connections."""
_TCP_INFO = struct.Struct("=24xI")
"""The beginning of Linux's `struct tcp_info` up to `tcpi_unacked`. For a listening socket that is the length of its
accept queue (`tcp_get_info` in net/ipv4/tcp.c)."""


class Listeners:
    """The bound sockets of `host:port`, in groups.

    `groups[i]` holds the sockets of share `i` of the connections: one socket for each address that `host` resolves to.
    A share is meant for one worker. With `balanced` each share has its own sockets (SO_REUSEPORT); otherwise there is
    one share, from which all workers accept. Raises OSError if an address cannot be bound.
    """

    def __init__(self, host: str, port: int, *, balanced: bool = BALANCED) -> None:
        self.balanced = balanced
        self.groups: list[list[socket.socket]] = []
        self._host = host
        self._addresses = _resolved(host, port)
        if port and balanced:
            # SO_REUSEPORT would silently share the port with another gateway of the same user.
            for sock in self._bound(reuse_port=False):
                sock.close()
        self.groups.append(self._bound(reuse_port=balanced))
        self.port: int = self.groups[0][0].getsockname()[1]

    @property
    def url(self) -> str:
        """The gateway's base URL, without a path."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}"

    def grow(self, shares: int) -> None:
        """Bind more sockets until there are `shares` groups. Does nothing if not `balanced`. Raises OSError."""
        while self.balanced and len(self.groups) < shares:
            self.groups.append(self._bound(reuse_port=True))

    def listen(self, backlog: int) -> None:
        """Start to listen. At most `backlog` connections wait in each socket's queue until a worker accepts them."""
        for group in self.groups:
            for sock in group:
                sock.listen(backlog)

    def descriptors(self) -> list[list[int]]:
        """Return the file descriptors, grouped as in `groups`."""
        return [[sock.fileno() for sock in group] for group in self.groups]

    def waiting(self) -> int | None:
        """Return the number of connections that no process has accepted yet; None on systems other than Linux."""
        if sys.platform != "linux":
            return None
        infos = [
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            for group in self.groups
            for sock in group
        ]
        lengths: list[tuple[int]] = [_TCP_INFO.unpack(info) for info in infos]
        return sum(length for (length,) in lengths)

    def add_gauges(self, totals: Totals) -> None:
        """Add the length of the accept queues, if the system reports it."""
        if (waiting := self.waiting()) is not None:
            totals.put(ACCEPT_QUEUE, (), waiting)

    def close(self) -> None:
        """Close this process's sockets. Processes that inherited them keep the address."""
        for group in self.groups:
            for sock in group:
                sock.close()

    def _bound(self, *, reuse_port: bool) -> list[socket.socket]:
        port = self.groups[0][0].getsockname()[1] if self.groups else 0
        group: list[socket.socket] = []
        missing: OSError | None = None
        try:
            for family, address in self._addresses:
                # All addresses get the port that the system chose for the first one.
                where = (address[0], address[1] or port, *address[2:])
                try:
                    group.append(_bind(family, where, reuse_port))
                except OSError as error:
                    if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                        raise cannot_listen(where, error) from None
                    missing = error  # `localhost` resolves to ::1 as well, even without IPv6
                else:
                    port = group[-1].getsockname()[1]
            if not group and missing is not None:
                raise OSError(missing.errno, f"cannot listen on {self._host}: {_reason(missing)}")
        except BaseException:
            for sock in group:
                sock.close()
            raise
        return group


def cannot_listen(address: tuple[object, ...], error: OSError) -> OSError:
    """Return an OSError whose text names the address and the reason."""
    return OSError(error.errno, f"cannot listen on {_shown(address)}: {_reason(error)}")


def _resolved(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise cannot_listen((host, port), error) from None
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))  # type: ignore[misc]


def _bind(family: int, address: tuple[object, ...], reuse_port: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows it would let other processes take over the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        limit_unsent(sock)  # accepted connections inherit it
        sock.bind(address)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _shown(address: tuple[object, ...]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _reason(error: OSError) -> str:
    if error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()  # asyncio's own text repeats the address
    return (error.strerror or str(error)).lower()
