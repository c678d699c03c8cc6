"""Garbage collection of the objects of a gateway process that are not young, and the return of its free memory.

A full collection visits each object of each open stream, and no stream goes on meanwhile: a tenth of a second for two
thousand streams. Python makes one each time the old objects have become a quarter more. But what a request leaves is
freed without it, as nearly nothing of it is in cycles. So only the young objects are collected by Python, and all of
them when there are more than the open requests explain.

When most of many requests have ended, free memory is returned to the system.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from dragoman_server.observability.free_memory import return_free_memory

_THRESHOLDS: Final = 700, 4, 1 << 30
"""Of the three generations. Python's own second one is 10: a collection of 7,000 objects takes some milliseconds."""
_PER_REQUEST: Final = 100
"""Objects of an open request: 60 of a stream with a short request."""
_GARBAGE: Final = 100_000
"""Objects that may be garbage: some 15 MB."""
_MANY: Final = 100
"""Free memory is returned when there were so many open requests or more, and a quarter of them is left."""
_SECONDS: Final = 1.0
_SHARE: Final = 0.005
"""Share of the time that counting may take: a million objects take 10 ms."""


class OldObjects:
    """Collects the old objects of this process when many of them must be garbage. `open_requests` returns a number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_requests: Callable[[], int]) -> None:
        self._loop = loop
        self._open_requests = open_requests
        self._kept = 0
        """The objects that no request explains, and that the last collection has found in use."""
        self._most_open = 0
        """The most open requests since free memory was returned."""
        self._timer = loop.call_later(_SECONDS, self._check)

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _unexplained(self) -> int:
        return max(0, len(gc.get_objects(generation=2)) - _PER_REQUEST * self._open_requests())

    def _check(self) -> None:
        begun = time.perf_counter()
        if self._unexplained() > self._kept + _GARBAGE:
            gc.collect()
            self._kept = self._unexplained()
        count = self._open_requests()
        self._most_open = max(self._most_open, count)
        if self._most_open >= _MANY and 4 * count <= self._most_open:
            self._most_open = count
            return_free_memory()
        took = time.perf_counter() - begun
        self._timer = self._loop.call_later(max(_SECONDS, took / _SHARE), self._check)


@contextmanager
def collected_rarely(open_requests: Callable[[], int]) -> Iterator[None]:
    """Collect the old objects rarely. Must be called inside a running event loop. Python 3.14 collects in small steps,
    and is left alone."""
    if sys.version_info >= (3, 14):
        yield
        return
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    objects = OldObjects(asyncio.get_running_loop(), open_requests)
    try:
        yield
    finally:
        objects.stop()
        gc.set_threshold(*before)
