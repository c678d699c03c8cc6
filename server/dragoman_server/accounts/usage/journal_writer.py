"""A thread that writes the entries of exchanges to the journal before their requests are sent.

What begins in one turn of the event loop, or while the thread writes, is written together. A disk that hangs delays a
request for `SECONDS` at most: it is sent without an entry then, as are later ones until the disk answers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from dragoman.aio import FewPerTurn
from dragoman_server.accounts.usage.journal import Begun, Journal

log = logging.getLogger("dragoman")
SECONDS = 1.0
"""Longest wait of a request for its entry, in seconds."""
SENT = 2
"""Requests that are sent in a turn of the event loop, of those whose entries were written together."""
_CLOSE = 1.0
"""Longest wait for the thread when the gateway closes, in seconds."""
_Waiting = asyncio.Future[None]


class JournalWriter:
    """Writes entries to `journal` for one event loop. `unguarded` is called with the number of those not written."""

    def __init__(self, journal: Journal, unguarded: Callable[[int], None]) -> None:
        self._journal = journal
        self._unguarded = unguarded
        self._pending: deque[tuple[Begun, _Waiting]] = deque()
        self._open: dict[_Waiting, None] = {}
        """The requests that wait."""
        self._sent = FewPerTurn(SENT)
        self._wake: SimpleQueue[asyncio.AbstractEventLoop | None] = SimpleQueue()
        self._awake = False
        """True from the moment an entry wakes the thread until it reads the entries."""
        self._timer: asyncio.TimerHandle | None = None
        self._hangs = False
        self._thread: threading.Thread | None = None
        self.failing = False
        """True if the last write has failed, or has not ended in time."""

    def open(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="dragoman-begun", daemon=True)
        self._thread.start()

    async def begin(self, request_id: str, entry: bytes) -> None:
        """Write the entry of an exchange, and wait until it outlives the process, or cannot be written."""
        if self._hangs or self._thread is None:
            self._unguarded(1)
            return
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        if self._timer is None:
            self._timer = loop.call_later(SECONDS, self._hang)
        self._open[waiting] = None
        self._pending.append((Begun(request_id, entry), waiting))
        if not self._awake:
            self._awake = True
            self._wake.put(loop)
        await waiting

    def close(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wake.put(None)
            thread.join(_CLOSE)

    def _hang(self) -> None:
        """Let the requests that wait be sent: the disk has not answered in time."""
        self._hangs = True
        self._unguarded(len(self._open))
        self._fail(f"the disk has not answered for {SECONDS:g} s")
        self._release(tuple(self._open))

    def _written(self, batch: Sequence[_Waiting], error: Exception | None) -> None:
        if self._hangs:
            self._hangs = False
        elif error is not None:
            self._unguarded(len(batch))
        if error is not None:
            self._fail(error)
        elif self.failing:
            self.failing = False
            log.warning("the journal of usage is written again")
        self._release(batch)

    def _release(self, batch: Sequence[_Waiting]) -> None:
        for waiting in batch:
            self._open.pop(waiting, None)
            self._sent.call(partial(_end, waiting))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._timer = asyncio.get_running_loop().call_later(SECONDS, self._hang)

    def _fail(self, error: Exception | str) -> None:
        if not self.failing:
            self.failing = True
            log.error("requests are sent without an entry in the journal of usage: %s", error)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (loop := self._wake.get()) is not None:
            self._awake = False  # before the entries are read: later ones wake the thread again
            taken = [self._pending.popleft() for _ in range(len(self._pending))]
            batch = [each for each in taken if not each[1].done()]  # the others are sent, or their clients have left
            if not batch:
                continue
            error: Exception | None = None
            try:
                self._journal.begin([begun for begun, _ in batch])
            except Exception as failure:  # of any kind: the thread must not end
                error = failure
            with suppress(RuntimeError):  # the event loop was closed
                loop.call_soon_threadsafe(self._written, [waiting for _, waiting in batch], error)


def _end(waiting: _Waiting) -> None:
    if not waiting.done():
        waiting.set_result(None)
