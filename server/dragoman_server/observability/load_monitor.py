"""The load of one process: the lag of its event loop, its memory, and its open requests, with the bounds on them.

A timer that is due four times per second measures the lag by its own delay, which costs a few microseconds each time.
Requests compare nothing unless a bound is exceeded or one on open requests is configured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dragoman_server.config.overload import Overload
from dragoman_server.observability.free_memory import free_all
from dragoman_server.observability.metric_families import LAG, LAG_MAX, SHORT, TASKS, Totals, observe
from dragoman_server.observability.metrics import resident_memory

TICK = 0.25
"""Seconds between two measurements."""
WINDOW = 60
"""Measurements after which the longest lag is forgotten at the earliest."""
FREE_SECONDS = 10.0
"""Seconds between two attempts to free memory while it exceeds its bound."""
LATE_TICKS = 2
"""Consecutive measurements above the bound that make an overload. A single long callback does not."""
EVENT_LOOP_LAG, MEMORY, OPEN_REQUESTS = "event_loop_lag", "memory", "open_requests"


class LoadMonitor:
    """Measures the load while it runs, and compares it with the bounds of `overload`.

    Args:
        totals: The counters to add to.
        overload: The bounds.
        open_requests: A function that returns the number of requests being answered.
        clock: A function that returns seconds from any origin.
        memory: A function that returns the resident memory in bytes, or raises OSError.
        free: A function that returns to the system what is not in use of the memory.

    `checked` is False as long as no request can be rejected: then `reason` need not be called.
    """

    def __init__(
        self,
        totals: Totals,
        overload: Overload,
        open_requests: Callable[[], int],
        *,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] = resident_memory,
        free: Callable[[], None] = free_all,
    ) -> None:
        self._lags = totals.series(LAG)
        self._open_requests = open_requests
        self._clock = clock
        self._memory = memory
        self._free = free
        self._free_at = float("-inf")
        """When memory may be freed again."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._late_ticks = self._ticks = 0
        self._longest = self._longest_before = 0.0
        self._exceeded: str | None = None
        self.on_tick: list[Callable[[], None]] = []
        """Called after each measurement."""
        self.configure(overload)

    def configure(self, overload: Overload) -> None:
        """Use these bounds from now on."""
        self._overload = overload
        self._exceeded = None
        self.checked = overload.open_requests > 0

    def start(self) -> None:
        """Measure until `stop`. Must be called in the event loop."""
        self._due = self._clock() + TICK
        self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)

    def stop(self) -> None:
        """End the measurements."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self.measure()
        self.start()

    def measure(self) -> None:
        """Record the lag of a timer that was due at this moment, and compare lag and memory with their bounds."""
        lag = max(0.0, self._clock() - self._due)
        observe(self._lags[()], lag, SHORT)
        self._longest = max(self._longest, lag)
        self._ticks += 1
        if self._ticks % WINDOW == 0:
            self._longest_before, self._longest = self._longest, 0.0
        bounds = self._overload
        self._late_ticks = self._late_ticks + 1 if 0 < bounds.event_loop_lag < lag else 0
        self._exceeded = None
        if self._late_ticks >= LATE_TICKS:
            self._exceeded = EVENT_LOOP_LAG
        elif bounds.memory and self._exceeds(bounds.memory):
            self._exceeded = MEMORY
        self.checked = self._exceeded is not None or bounds.open_requests > 0
        for call in self.on_tick:
            call()

    def _exceeds(self, most: int) -> bool:
        """Return whether the process needs more memory than `most`. What it has freed may still be its own: without
        new requests, it would stay so for ever."""
        if self._resident() <= most:
            return False
        if (now := self._clock()) < self._free_at:
            return True
        self._free_at = now + FREE_SECONDS
        self._free()
        return self._resident() > most

    def _resident(self) -> int:
        try:
            return self._memory()
        except (OSError, ValueError, IndexError):
            return 0  # unknown on systems without /proc

    def reason(self, more: int = 0) -> str | None:
        """Return the name of the bound that is exceeded, if `more` requests were added, or None."""
        if self._exceeded is not None:
            return self._exceeded
        most = self._overload.open_requests
        return OPEN_REQUESTS if most and self._open_requests() + more > most else None

    def add_gauges(self, totals: Totals) -> None:
        """Add the longest lag of the last 15 to 30 seconds, and the tasks of the event loop while it measures."""
        totals.put(LAG_MAX, (), max(self._longest, self._longest_before))
        if self._timer is not None:
            totals.put(TASKS, (), len(asyncio.all_tasks()))
