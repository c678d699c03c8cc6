"""Long computations, such as the translation of a history of megabytes, in a thread other than the event loop's.

Python runs one thread at a time. While a job runs, the loop waits up to 5 ms (`sys.getswitchinterval`) for each of its
turns, and longer for a call of C that cannot be interrupted: orjson parses 25 MB in 40 to 60 ms. A second thread would
double that wait and shorten nothing, so all translations of an event loop share one.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

T = TypeVar("T")


class LongJobs:
    """Runs functions in a thread of its own, one at a time.

    Clients take turns: a client that waits for a job waits for one job of each other client at most.
    """

    __slots__ = ("_thread", "_turns")

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "long-jobs")  # the thread starts with the first job
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def run(self, client: Hashable, job: Callable[[], T]) -> T:
        """Return the result of `job`, which has the caller's context variables. Raises what it raises.

        A job that was cancelled goes on if it has begun, so it must change nothing that its caller may still use.
        """
        turn = self._turns.setdefault(client, asyncio.Lock())
        context = copy_context()
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(self._thread, context.run, _without_gc, job)


def _without_gc(job: Callable[[], T]) -> T:
    """Run a job without garbage collections.

    A million new objects cause several, of which each holds the loop for 30 to 80 ms and finds nothing: a history of
    16 MB in small parts takes 0.2 s instead of 0.6 s.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return job()
    finally:
        if collects:
            gc.enable()


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, LongJobs] = WeakKeyDictionary()


async def off_loop(client: Hashable, job: Callable[[], T]) -> T:
    """Run a job of the translation in the thread of this event loop: see `LongJobs.run`."""
    loop = asyncio.get_running_loop()
    jobs = _OF_LOOPS.get(loop)
    if jobs is None:
        jobs = _OF_LOOPS[loop] = LongJobs()
    return await jobs.run(client, job)
