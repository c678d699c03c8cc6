"""A thread that writes rows to a file, so that a slow disk does not delay replies."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from dragoman_server.accounts.usage.row import UsageRow

log = logging.getLogger("dragoman")
PENDING_MAX = 100_000
"""Most rows that wait to be written. More are dropped, and counted."""
_BATCH_SECONDS = 0.05
"""Seconds for which rows are collected: a killed process loses at most those of this time."""
_RETRY_SECONDS = 1.0
"""Seconds until the next attempt after a write that failed."""


class RowFile(Protocol):
    """A file of rows. Its methods run in the thread of the sink and may raise OSError or ValueError."""

    def open(self) -> None:
        """Open the file, and create it if it does not exist."""
        ...

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Write rows, all or none of them."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class RowSink:
    """Writes rows to `file` in batches. `dropped` is called with the number of rows that were not written."""

    def __init__(self, file: RowFile, dropped: Callable[[int], None]) -> None:
        self._file = file
        self._dropped = dropped
        self._pending: deque[UsageRow] = deque()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._awake = False
        """True from the moment a row wakes the thread until it writes."""
        self._closing = False
        self._thread: threading.Thread | None = None
        self._failing = False

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
        if left := len(self._pending):
            self._dropped(left)
            log.error("%d rows of usage were not written", left)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            self._wake.get()
            time.sleep(_BATCH_SECONDS)
            self._awake = False  # before the rows are read: later ones wake the thread again
            while not self._write_pending() and not self._closing:
                time.sleep(_RETRY_SECONDS)
        self._write_pending()
        try:
            self._file.close()
        except (OSError, ValueError) as error:
            log.error("the file of usage cannot be closed: %s", error)

    def _write_pending(self) -> bool:
        """Write all rows that wait. Return False if they could not be written."""
        rows = list(self._pending)
        if not rows:
            return True
        try:
            self._file.write(rows)
        except Exception as error:  # of any kind: the thread must not end
            if not self._failing:
                self._failing = True
                log.error("usage cannot be written, it is tried again: %s", error)
            return False
        if self._failing:
            self._failing = False
            log.warning("usage is written again")
        for _ in rows:
            self._pending.popleft()
        return True
