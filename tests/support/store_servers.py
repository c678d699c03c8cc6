"""The servers that keep stored responses for gateways on many machines, by the kind of the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from support.postgres_server import postgres_server
from support.redis_server import redis_server

SHARED = ("redis", "postgresql")
"""The kinds of stores on another machine."""


class StoreServer(Protocol):
    """A server that can be stopped, started again on its port, and frozen."""

    @property
    def url(self) -> str:
        """The URL for gateways."""
        ...

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...

    def freeze(self) -> None:
        """Let its connections stay open without any answer."""
        ...

    def thaw(self) -> None:
        """Let it go on."""
        ...


@contextmanager
def store_server(kind: str, folder: Path) -> Iterator[StoreServer]:
    """A running server that keeps what it has stored when it is killed. Skips the test where it is not installed."""
    if kind == "redis":
        data = folder / "redis"
        data.mkdir(exist_ok=True)
        with redis_server(data) as redis:
            yield redis
    else:
        with postgres_server() as postgres:
            yield postgres
