"""A clock that moves only when reported to: for timers without waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Timer:
    """A pending call, with the part of `asyncio.TimerHandle` that callers use."""

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args

    def when(self) -> float:
        """The time it is due."""
        return self._when

    def cancel(self) -> None:
        """Never call."""
        self._callback = None

    def cancelled(self) -> bool:
        """Return whether it was cancelled (or has run)."""
        return self._callback is None

    def run(self) -> None:
        """Call, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(*self._args)


class ManualClock:
    """`clock()` is the time in seconds; `call_later`, `call_at` and `sleep` are as in asyncio, on this clock."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._order = itertools.count()
        self._due: list[tuple[float, int, Timer]] = []

    def __call__(self) -> float:
        return self._now

    def time(self) -> float:
        """The time, by asyncio's name of it."""
        return self._now

    @property
    def pending(self) -> int:
        """Timers that were neither run nor cancelled: 0 at the end of a test means that none leaked."""
        return sum(not timer.cancelled() for _, _, timer in self._due)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call at a time; one in the past is due at the next `advance`."""
        timer = Timer(when, callback, args)
        heapq.heappush(self._due, (when, next(self._order), timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Call after `delay` seconds of this clock."""
        return self.call_at(self._now + delay, callback, *args)

    async def sleep(self, delay: float) -> None:
        """Wait until the clock was advanced so far."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        timer = self.call_later(delay, wake)
        try:
            await future
        finally:
            timer.cancel()

    def advance(self, seconds: float) -> None:
        """Move on, running what falls due in order, each at its own time."""
        target = self._now + seconds
        while self._due and self._due[0][0] <= target:
            when, _, timer = heapq.heappop(self._due)
            self._now = max(self._now, when)
            timer.run()
        self._now = target

    async def pass_time(self, seconds: float, *, step: float | None = None) -> None:
        """`advance`, with a few turns of the event loop before (to arm timers) and after; in steps if timers re-arm."""
        await self._settle()
        left = seconds
        while left > 0:
            now = left if step is None else min(step, left)
            self.advance(now)
            left -= now
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
