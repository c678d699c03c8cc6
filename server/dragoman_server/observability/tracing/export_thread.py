"""The thread that sends spans: the event loop only appends to a queue with a limit."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from dragoman_server.observability.metric_families import SPANS, Totals
from dragoman_server.observability.tracing.span import Span

log = logging.getLogger("dragoman")
BATCH = 512
"""Most spans of one request to the collector. As many make the thread send at once."""
INTERVAL = 1.0
"""Seconds until fewer spans are sent."""
WARN_EVERY = 60.0
"""Seconds between two warnings about spans that could not be sent."""


class ExportThread:
    """A `SpanSink` that sends spans in batches. The thread starts with the first span.

    Args:
        export: Sends spans; returns False if the collector did not take them. Called in the thread.
        stop: Ends a call of `export` early.
        totals: The counters to add to.
        queue: Most spans that wait. Further ones are dropped.
    """

    def __init__(
        self, export: Callable[[Sequence[Span]], bool], stop: Callable[[], None], totals: Totals, queue: int
    ) -> None:
        self._export = export
        self._stop_export = stop
        # Created here, so that the thread changes numbers only and no mapping.
        series = totals.series(SPANS)
        self._exported, self._failed, self._dropped = (series[word,] for word in ("exported", "failed", "dropped"))
        self._most = queue
        self._queue: deque[Span] = deque()
        self._wake = threading.Event()
        self._stopping = self._given_up = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._next_warning = 0.0

    def put(self, span: Span) -> None:
        """Add a span to the queue. Must be called in the event loop."""
        count = len(self._queue)
        if count >= self._most:
            self._dropped[0] += 1
            return
        self._queue.append(span)
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="dragoman-spans", daemon=True)
            self._thread.start()
        elif count + 1 >= min(BATCH, self._most):
            self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(INTERVAL)
            self._wake.clear()
            self._send()
        self._send()
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended.set)

    def _send(self) -> None:
        while self._queue and not self._given_up:
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                sent = self._export(batch)
            except Exception:
                log.exception("the export of spans failed by a defect")
                sent = False
            (self._exported if sent else self._failed)[0] += len(batch)
            if not sent and (now := time.monotonic()) >= self._next_warning:
                self._next_warning = now + WARN_EVERY
                log.warning("spans could not be sent to the collector of traces: %d are lost", len(batch))

    async def close(self, seconds: float) -> None:
        """Send what waits, and end the thread; after `seconds` drop what is left."""
        self._stopping = True
        if self._thread is None:
            return
        self._wake.set()
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            self._given_up = True
            self._dropped[0] += len(self._queue)
        self._stop_export()
