"""A thread that masks and writes captures, so that neither delays replies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from dragoman.wire import Json
from dragoman_server.observability.captures.document import CaptureDocument
from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.captures.store import CaptureStore

log = logging.getLogger("dragoman")
_PRUNE_SECONDS: Final = 600.0
"""Longest time between two checks for captures that are too old."""

Job = tuple[Recording, Json, Json]


class CaptureWriter:
    """Writes recordings to the store. `done` is called in the thread for each: with True if it was written."""

    def __init__(self, store: CaptureStore, *, texts: bool, done: Callable[[bool], None]) -> None:
        self._store = store
        self._texts = texts
        self._done = done
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing = False

    def open(self) -> None:
        """Open the store and start the thread. Raises OSError."""
        self._store.open()
        self._thread = threading.Thread(target=self._run, name="dragoman-captures", daemon=True)
        self._thread.start()

    def put(self, recording: Recording, facts: Json, receipt: Json) -> None:
        """Write a recording soon, with facts for its summary. Never blocks; the caller limits how many are pending."""
        self._jobs.put((recording, facts, receipt))

    def close(self, seconds: float) -> None:
        """Write what is pending, for at most `seconds`."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join(seconds)

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_PRUNE_SECONDS)
            except Empty:
                self._try(self._store.prune)
                continue
            if job is None:
                return
            self._done(self._try(partial(self._write, *job)))
            del job  # not kept while waiting: one recording, of up to `exchange_bytes`

    def _write(self, recording: Recording, facts: Json, receipt: Json) -> None:
        content = CaptureDocument(recording, facts, receipt, texts=self._texts).lines()
        self._store.write(recording.request_id, content)

    def _try(self, work: Callable[[], None]) -> bool:
        """Return whether it succeeded. The first of several failures in a row is logged."""
        try:
            work()
        except Exception as error:  # of any kind: the thread must not end
            if not self._failing:
                self._failing = True
                # Only a system's message: that of another error may quote a text.
                reason = error.strerror if isinstance(error, OSError) else type(error).__name__
                log.error("captures cannot be written: %s", reason)
            return False
        self._failing = False
        return True
