"""A thread that writes rows to a file, so that a slow disk does not delay replies."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

from dragoman.wire import Json
from dragoman_server.accounts.usage.row import UsageRow

if TYPE_CHECKING:
    from dragoman_server.accounts.usage.journal import Journal

log = logging.getLogger("dragoman")
PENDING_MAX = 100_000
"""Most rows that wait to be written. More are dropped, and counted."""
_BATCH_SECONDS = 0.05
"""Seconds for which rows are collected: a killed process loses at most those of this time."""
_RETRY_SECONDS = 1.0
"""Seconds until the next attempt after a write that failed."""
_SEARCH_SECONDS = 60.0
"""Seconds between two searches for the journals of killed processes, while no rows are written."""
_FLUSH_SECONDS = 2.0
"""Longest wait of `flush`."""
LostRow = Callable[[Json], UsageRow]
"""A function that returns the row of a lost exchange, of which it gets the entry."""


class RowFile(Protocol):
    """A file of rows. Its methods run in the thread of the sink and may raise OSError or ValueError."""

    def open(self) -> None:
        """Open the file, and create it if it does not exist."""
        ...

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Write rows, all or none of them."""
        ...

    def write_missing(self, rows: Sequence[UsageRow]) -> None:
        """Write the rows whose ids the file does not have, or only in a row that they replace (`row.PROVISIONAL`).

        A class that inherits this needs a `write` that does so.
        """
        self.write(rows)

    def close(self) -> None:
        """Close the file."""
        ...


class RowSink:
    """Writes rows to `file` in batches.

    Args:
        file: The file.
        dropped: Called with the number of rows that were not written.
        journal: The entries of exchanges that have begun, which are removed when their rows are written; None if none
            are kept. Those that killed processes have left become rows.
        lost_row: Makes these rows.
    """

    def __init__(
        self,
        file: RowFile,
        dropped: Callable[[int], None],
        journal: Journal | None = None,
        lost_row: LostRow | None = None,
    ) -> None:
        self._file = file
        self._dropped = dropped
        self._journal = journal
        self._lost_row = lost_row
        self._pending: deque[UsageRow] = deque()
        self._missing: deque[UsageRow] = deque()
        """Rows that the file may have."""
        self._forgotten: deque[str] = deque()
        """Exchanges whose entries are kept elsewhere."""
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Each waits until so many rows are written."""
        self._added = self._written = 0
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._awake = False
        """True from the moment a row wakes the thread until it writes."""
        self._closing = False
        self._thread: threading.Thread | None = None
        self.failing = False
        """True if the last write has failed."""

    def open(self) -> None:
        """Open the file and start the thread. Raises OSError or ValueError."""
        self._file.open()
        self._thread = threading.Thread(target=self._run, name="dragoman-usage", daemon=True)
        self._thread.start()

    def add(self, row: UsageRow) -> None:
        """Write a row soon. Never blocks."""
        if len(self._pending) >= PENDING_MAX:
            self._dropped(1)
            return
        self._pending.append(row)
        self._added += 1
        self._wake_up()

    def add_missing(self, row: UsageRow) -> None:
        """Write a row soon, unless the file has one of its id that it does not replace."""
        self._missing.append(row)
        self._added += 1
        self._wake_up()

    def forget(self, request_id: str) -> None:
        """Remove the entry of an exchange from the journal soon, without a row."""
        if self._journal is not None:
            self._forgotten.append(request_id)
            self._wake_up()

    async def flush(self) -> None:
        """Wait until the rows that were added are written, but not for long."""
        if self._pending or self._missing:
            done = asyncio.get_running_loop().create_future()
            self._flushes.append((self._added, done))
            self._wake_up()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await done

    def _wake_up(self) -> None:
        if not self._awake:
            self._awake = True
            self._wake.put(None)

    def close(self, seconds: float) -> None:
        """Write what is pending, for at most `seconds`, and close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._closing = True
            self._wake.put(None)
            thread.join(seconds)
        if left := len(self._pending) + len(self._missing):
            self._dropped(left)
            log.error("%d rows of usage were not written", left)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._take_lost()
        while not self._closing:
            try:
                self._wake.get(timeout=_SEARCH_SECONDS if self._journal is not None else None)
            except Empty:
                self._take_lost()
                continue
            time.sleep(_BATCH_SECONDS)
            self._awake = False  # before the rows are read: later ones wake the thread again
            while not self._write_pending() and not self._closing:
                time.sleep(_RETRY_SECONDS)
        self._write_pending()
        try:
            if self._journal is not None:
                self._journal.close()
            self._file.close()
        except (OSError, ValueError) as error:
            log.error("the file of usage cannot be closed: %s", error)

    def _write_pending(self) -> bool:
        """Write all rows that wait. Return False if they could not be written."""
        rows, missing, forgotten = list(self._pending), list(self._missing), list(self._forgotten)
        try:
            if rows:
                self._file.write(rows)
                self._remove(self._pending, rows)
            if missing:
                self._file.write_missing(missing)
                self._remove(self._missing, missing)
            if forgotten and self._journal is not None:
                self._journal.end(forgotten)
                for _ in forgotten:
                    self._forgotten.popleft()
        except Exception as error:  # of any kind: the thread must not end
            if not self.failing:
                self.failing = True
                log.error("usage cannot be written, it is tried again: %s", error)
            return False
        if self.failing:
            self.failing = False
            log.warning("usage is written again")
        self._end_flushes()
        return True

    def _remove(self, pending: deque[UsageRow], rows: Sequence[UsageRow]) -> None:
        """Remove rows that are written, and their entries in the journal."""
        for _ in rows:
            pending.popleft()
        self._written += len(rows)
        if self._journal is not None:
            try:
                self._journal.end([row.id for row in rows])
            except (OSError, ValueError) as error:  # the next start finds that they are booked
                log.warning("entries of the journal of usage cannot be removed: %s", error)

    def _end_flushes(self) -> None:
        """Let those go on whose rows are written."""
        while self._flushes and self._flushes[0][0] <= self._written:
            _, done = self._flushes.popleft()
            with suppress(RuntimeError):  # the event loop was closed
                done.get_loop().call_soon_threadsafe(_set, done)

    def _take_lost(self) -> None:
        """Write the rows of exchanges that were lost with their process. What fails is tried again later."""
        if self._journal is not None:
            try:
                self._journal.take_lost(self._book_lost)
            except Exception as error:  # of any kind: the thread must not end
                log.error("the usage of a killed process cannot be booked, it is tried again: %s", error)

    def _book_lost(self, process: str, entries: Sequence[Json]) -> None:
        assert self._lost_row is not None
        rows = [self._lost_row(entry) for entry in entries]
        self._file.write_missing(rows)
        log.warning("%d exchanges were lost with the process %s: their rows are estimates", len(rows), process)


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
