"""One timer for many watchers that each want a look now and then, spread so that thousands of them make no burst.

A wheel turns once per period and has up to 16 slots; each tick looks at the watchers of one slot. Putting a watcher in
or out is a set operation, no timer of the event loop is made for it, and an empty wheel stands still.

There is no coarse clock to read: whoever notes the time that a tick has set notes one that is too old, and would time
out early. A watcher notes only *that* something happened, and counts from the look that finds the note: never early,
and one attribute store for the hot path.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary, ref

_SLOTS = 16
_SHORTEST = 1 / 256
"""Seconds: of a tick, and so of a period. Event loops count in milliseconds."""


class TimerTarget(Protocol):
    """Something that is looked at once per turn of a wheel."""

    def on_tick(self, now: float, /) -> None:
        """`now` is the loop's time in seconds. May put watchers in and take them out, itself too."""
        ...


class TimerWheel:
    """A wheel of one event loop that turns once in `period` seconds.

    The first look at a watcher comes within a period of `put`, the next ones a period apart; later if the loop is late.
    """

    # Neither the loop nor a handle of it: the loop's own entry in `_WHEELS` would keep it alive.
    __slots__ = ("__weakref__", "_at", "_loop", "_next", "_size", "_slots", "_step", "_turning")

    def __init__(self, loop: asyncio.AbstractEventLoop, period: float) -> None:
        slots = max(1, min(_SLOTS, int(period / _SHORTEST)))
        self._loop = ref(loop)
        self._step = period / slots
        self._slots: list[set[TimerTarget]] = [set() for _ in range(slots)]
        self._size = self._at = self._next = 0
        self._turning = False

    def __len__(self) -> int:
        return self._size

    def add(self, watcher: TimerTarget) -> int:
        """Look at `watcher` from now on. Gives what `take` wants to find it again."""
        # In turn, not where the wheel stands: of a thousand that come at once no two looks shall be a burst.
        self._next = slot = (self._next + 1) % len(self._slots)
        self._slots[slot].add(watcher)
        self._size += 1
        if not self._turning:
            self._turn()
        return slot

    def remove(self, watcher: TimerTarget, slot: int) -> None:
        """Look at it no more. Raises KeyError if it is not in."""
        self._slots[slot].remove(watcher)
        self._size -= 1

    def _turn(self) -> None:
        loop = self._loop()
        self._turning = loop is not None and self._size > 0
        if loop is not None and self._size:
            loop.call_later(self._step, self._tick)

    def _tick(self) -> None:
        self._turn()
        self._at = at = (self._at + 1) % len(self._slots)
        slot = self._slots[at]
        loop = self._loop()
        if not slot or loop is None:
            return
        now = loop.time()
        for watcher in tuple(slot):
            if watcher in slot:  # one before it may have taken it out
                try:
                    watcher.on_tick(now)
                except Exception as error:
                    # The others of the slot are not to pay for it.
                    told = {"message": "a watcher of the timer wheel failed", "exception": error}
                    loop.call_exception_handler(told)


_WHEELS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, TimerWheel]] = WeakKeyDictionary()


def timer_wheel(loop: asyncio.AbstractEventLoop, longest: float) -> TimerWheel:
    """The loop's wheel for watchers that want a look every `longest` seconds or sooner.

    Periods are a second, halved and halved again, down to 1/256: a loop has nine wheels at most.
    """
    period = 1.0
    while period > longest and period > _SHORTEST:
        period /= 2
    wheels = _WHEELS.get(loop)
    if wheels is None:
        wheels = _WHEELS[loop] = {}
    wheel = wheels.get(period)
    if wheel is None:
        wheel = wheels[period] = TimerWheel(loop, period)
    return wheel
