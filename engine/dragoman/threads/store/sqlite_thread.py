"""A thread that owns an SQLite file. Work that waits at the same time shares one transaction, and one commit."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from dragoman.threads.store.interface import StoreError
from dragoman.threads.store.sqlite_files import SqliteFiles

T = TypeVar("T")
PENDING_MAX = 10_000
"""Most pieces of work that wait. More are rejected at once: the disk is too slow for them."""
BATCH_MAX = 256
"""Most pieces of work in one transaction."""
_LOCK_SECONDS = 2.0
"""Longest wait for another process's transaction, in seconds."""
NORMAL = "synchronous = NORMAL"
"""With a write-ahead log the file stays consistent; a power failure loses the last transactions at most."""
FULL = "synchronous = FULL"
"""A committed transaction survives a power failure too: each commit waits for the disk."""
IN_MEMORY = ":memory:"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_IOERR: "the disk does not work: check it and its room",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: move it away, and a new one is created at the next start",
    sqlite3.SQLITE_NOTADB: "it is not a database: move it away, or name another path",
    sqlite3.SQLITE_BUSY: "another process holds its lock for too long",
    sqlite3.SQLITE_LOCKED: "another process holds its lock for too long",
    sqlite3.SQLITE_READONLY: "it cannot be written: check its owner, its mode and its directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check its directory and its mode",
}
"""Advice by SQLite's primary error code."""
_RETRY_SECONDS = 0.01
"""Seconds between two attempts to switch to the write-ahead log."""


@dataclass(slots=True)
class _Work:
    run: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class SqliteThread:
    """The thread of one file.

    Args:
        path: The file, or `:memory:`.
        migrations: The scripts from each version of the schema to the next.
        settings: SQLite's settings, without `PRAGMA`.
    """

    def __init__(self, path: str, migrations: Sequence[str], settings: Sequence[str] = (NORMAL,)) -> None:
        self._path = path
        self._migrations = migrations
        self._settings = settings
        # Written in C: a Queue takes 50,000 instructions more for each piece of work.
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._files: SqliteFiles | None = None
        """The files that are open; None in memory."""

    async def open(self) -> None:
        """Open the file and start the thread. Raises StoreError."""
        self._loop = asyncio.get_running_loop()
        db = await asyncio.to_thread(self._connect)
        self._thread = Thread(target=self._main, args=(db,), name="dragoman-store", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Call `work` in the thread, within a transaction, and return its result once that is committed.

        If this is cancelled before the work has begun, it is not done. Raises StoreError, also for errors of SQLite.
        """
        assert self._loop is not None
        item = _Work(work, self._loop.create_future())
        if self._queue.qsize() >= PENDING_MAX:
            raise StoreError(f"{self._path} is too slow: {PENDING_MAX} writes wait")
        self._queue.put(item)
        result: T = await item.future
        return result

    async def close(self) -> None:
        """Finish all work that waits, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        try:
            # Created here with its mode: SQLite would use the umask, and other users must not read the file. The
            # files of the write-ahead log get the mode of this one. A file that exists is not opened: closing it
            # would release the locks of this process's other connections to it.
            if self._path != IN_MEMORY:
                with suppress(FileExistsError):
                    os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            db = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            missing = isinstance(error, FileNotFoundError)
            why = f"the directory {os.path.dirname(self._path)} does not exist: create it" if missing else advice(error)
            raise StoreError(f"{self._path} cannot be opened: {why}") from None
        try:
            self._files = SqliteFiles(self._path) if self._path != IN_MEMORY else None
            _use_log(db)
            for setting in self._settings:
                db.execute(f"PRAGMA {setting}")
            self._migrate(db)
        except (StoreError, OSError, sqlite3.Error) as error:
            db.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{self._path} cannot be used: {advice(error)}") from None
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")  # two processes that start together must not both migrate
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > len(self._migrations):
            db.execute("ROLLBACK")
            raise StoreError(
                f"{self._path} has schema version {version}, of a later Dragoman: run that, or name another file"
            )
        for script in self._migrations[version:]:
            for statement in script.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(self._migrations)}")
        db.execute("COMMIT")

    def _main(self, db: sqlite3.Connection) -> None:
        more = True
        while more:
            batch, more = self._take()
            if not batch:
                continue
            self._commit(db, batch)
            # The loop is closed if the program ends without closing the store.
            with suppress(RuntimeError):
                assert self._loop is not None
                self._loop.call_soon_threadsafe(_resolve, batch)
        if self._files is not None:
            self._files.repair_index()  # it is read once more
        db.close()

    def _take(self) -> tuple[list[_Work], bool]:
        """Wait for work. Return what there is, and False after the last."""
        batch: list[_Work] = []
        try:
            item = self._queue.get()
            while item is not None:
                batch.append(item)
                if len(batch) >= BATCH_MAX:
                    return batch, True
                item = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _commit(self, db: sqlite3.Connection, batch: list[_Work]) -> None:
        try:
            if self._files is not None:
                self._files.check()
            db.execute("BEGIN IMMEDIATE")
            for item in batch:
                if not item.future.cancelled():
                    try:
                        item.result = item.run(db)
                    except StoreError as error:
                        item.error = error
            db.execute("COMMIT")
        except Exception as error:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            for item in batch:
                item.error = StoreError(f"{self._path}: {advice(error)}")


def advice(error: Exception) -> str:
    """Return the text of an error, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", None)
    # The low byte is the primary code, the others are details.
    hint = _ADVICE.get(code & 0xFF) if code is not None else None
    return f"{error} ({hint})" if hint else str(error)


def _use_log(db: sqlite3.Connection) -> None:
    """Switch a file to the write-ahead log.

    SQLite does not wait for the lock of another connection that does so at the same time, so this tries again.
    """
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)


def _resolve(batch: Sequence[_Work]) -> None:
    for item in batch:
        if item.future.done():
            continue
        if item.error is not None:
            item.future.set_exception(item.error)
        else:
            item.future.set_result(item.result)
