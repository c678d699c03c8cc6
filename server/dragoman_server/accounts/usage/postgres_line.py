"""A connection to the PostgreSQL of the usage, for a thread without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from dragoman.threads import PostgresConnection, StoreError
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.postgres_schema import USAGE

T = TypeVar("T")
_TURNS = 4
"""Turns of the event loop that read the last message of the server and the end of the connection, and note it."""


class PostgresLine:
    """A connection with an event loop of its own, for one thread at a time. A statement may take `timeout` seconds.

    The server may start later: it connects with the first call.
    """

    def __init__(self, options: UsageOptions, timeout: float) -> None:
        self.connection = PostgresConnection(
            options.url, USAGE, timeout, schema=options.prefix, setting="usage.url", connections=1
        )
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that uses the connection. Raises ValueError for a StoreError."""
        try:
            if self._runner is None:
                self._runner = asyncio.Runner()
                self._runner.run(self.connection.open())
            else:
                self._runner.run(_read_sockets())
            return self._runner.run(work)
        except StoreError as error:
            raise ValueError(str(error)) from None
        finally:
            work.close()  # if the connection could not be opened

    def close(self) -> None:
        """Close the connection and the event loop. Raises ValueError."""
        runner, self._runner = self._runner, None
        if runner is not None:
            try:
                runner.run(self.connection.close())
            except StoreError as error:
                raise ValueError(str(error)) from None
            finally:
                runner.close()


async def _read_sockets() -> None:
    """Read what has arrived since the last call: the server may have closed the connection, and a new one is opened."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
