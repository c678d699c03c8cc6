"""The common part of the stores in an SQLite file: each call has a limit of time, and runs in the file's thread."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from dragoman.threads import SqliteThread, StoreError

C = TypeVar("C", bound="SqliteCalls")
P = ParamSpec("P")
T = TypeVar("T")
NORMAL = ("synchronous = NORMAL",)
"""A change survives the end of its process, but maybe not a power failure."""


class SqliteCalls:
    """The file at `path`, with the scripts and settings of `SqliteThread`. A call may take `timeout` seconds."""

    def __init__(self, path: str, migrations: Sequence[str], timeout: float, settings: Sequence[str] = NORMAL) -> None:
        self._path = path
        self._migrations = migrations
        self._settings = settings
        self._timeout = timeout
        self._thread: SqliteThread | None = None

    async def open(self) -> None:
        """Open the file, and create it if it does not exist."""
        thread = SqliteThread(self._path, self._migrations, self._settings)
        await thread.open()
        self._thread = thread

    async def close(self) -> None:
        """Commit what is pending, and close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.close()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` with the file and return its result. Raises StoreError."""
        if self._thread is None:
            raise StoreError("the store is not open")
        try:
            async with asyncio.timeout(self._timeout):
                return await self._thread.run(work)
        except TimeoutError:
            raise StoreError(f"{self._path} did not answer within {self._timeout:g} s") from None


def transaction(
    work: Callable[Concatenate[C, sqlite3.Connection, P], T],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Make a method that uses the file a coroutine, which runs it in the file's thread, in one transaction."""

    @wraps(work)
    async def call(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(lambda db: work(self, db, *args, **kwargs))

    return call
