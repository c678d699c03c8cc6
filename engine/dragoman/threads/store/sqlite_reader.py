"""A thread that reads an SQLite file through a connection of its own, so that no read waits for a write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dragoman.threads.store.interface import StoreError
from dragoman.threads.store.sqlite_files import SqliteFiles
from dragoman.threads.store.sqlite_thread import advice

T = TypeVar("T")
PENDING_MAX = 10_000
"""Most reads that wait. More are rejected at once."""


class SqliteReader:
    """Reads the file at `path`, which must exist."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, "dragoman-reader")
        self._db: sqlite3.Connection | None = None
        self._files: SqliteFiles | None = None
        self._pending = 0

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in the thread. Raises StoreError, also for errors of SQLite."""
        if self._pending >= PENDING_MAX:
            raise StoreError(f"{self._path} is too slow: {PENDING_MAX} reads wait")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, work)
        finally:
            self._pending -= 1

    async def close(self) -> None:
        """Finish the reads that wait, and close the file."""
        await asyncio.to_thread(self._executor.shutdown)
        if self._db is not None and self._files is not None:
            self._files.repair_index()
            self._db.close()

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._db is None:
                address = f"{Path(self._path).absolute().as_uri()}?mode=ro"
                self._db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
                self._files = SqliteFiles(self._path)
            if self._files is not None:
                self._files.repair_index()
            return work(self._db)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self._path}: {advice(error)}") from None
