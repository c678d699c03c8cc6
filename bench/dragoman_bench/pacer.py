"""One timer for all paced streams: a heap of due times and a single timerfd.

An event loop's timers have a resolution of a millisecond, so that streams due within one would form a burst; and a
timer per stream costs more than the write. The kernel's timerfd wakes the loop to the microsecond.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from heapq import heappop, heappush, heapreplace
from typing import Protocol

_MONOTONIC = 1
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1
_SECOND = 10**9
_TOGETHER_NS = 20_000
"""Senders due within this time are called now: another wake-up costs about as much."""
_AT_ONCE = 256
"""Maximum number of sends per wake-up; then the loop handles other events."""


class PacedSender(Protocol):
    """A sender with an interval, in nanoseconds."""

    interval_ns: int

    def tick(self) -> bool:
        """Send. Returns False after the last time."""
        ...


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Setting(ctypes.Structure):
    _fields_ = [("interval", _Timespec), ("value", _Timespec)]


class Pacer:
    """Calls `tick` of each added sender at its interval, at absolute times: a late tick does not delay the next.

    Needs a running loop with `add_reader` and Linux's timerfd. Raises OSError without one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create: " + os.strerror(ctypes.get_errno()))
        self._loop = loop
        self._due: list[tuple[int, int, PacedSender]] = []
        self._added = 0
        self._armed = 0
        self._setting = _Setting()
        self._pointer = ctypes.byref(self._setting)
        loop.add_reader(self._fd, self._wake)

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paced: PacedSender, first_ns: int) -> None:
        """Tick `paced` at monotonic `first_ns`, then at its interval."""
        self._added += 1
        heappush(self._due, (first_ns, self._added, paced))
        if not self._armed or first_ns < self._armed:
            self._arm(first_ns)

    def close(self) -> None:
        """Stop ticking."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._due.clear()

    def _arm(self, at: int) -> None:
        self._armed = at
        self._setting.value.seconds, self._setting.value.nanoseconds = divmod(at, _SECOND)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, self._pointer, None)

    def _wake(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        due = self._due
        self._armed = 0
        until = time.monotonic_ns() + _TOGETHER_NS
        for _ in range(_AT_ONCE):
            if not due or due[0][0] > until:
                break
            at, serial, paced = due[0]
            if paced.tick():
                heapreplace(due, (at + paced.interval_ns, serial, paced))
            else:
                heappop(due)
        if due:
            self._arm(due[0][0])
