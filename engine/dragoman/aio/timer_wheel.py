"""A hashed timing wheel: one timer of the event loop calls many targets periodically, spread over time.

A wheel turns once per period and has up to 16 slots; each tick calls the targets of one slot. Adding or removing a
target is a set operation, no timer of the event loop is created for it, and an empty wheel does not tick. For a target
that is alone the first tick comes after a whole period, so that a lone short request does not cause one.

The wheel offers no clock. A target that recorded the time of the last tick would record one that is too old, and time
out early. A target records only *that* something happened, and counts from the tick that finds the record: never early,
and one attribute store on the hot path.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary, ref

_SLOTS = 16
_SHORTEST = 1 / 256
"""Seconds of the shortest tick, and so of the shortest period. Event loops count in milliseconds."""


class TimerTarget(Protocol):
    """An object that is called once per turn of a wheel."""

    def on_tick(self, now: float, /) -> None:
        """Handle a tick. `now` is the loop's time in seconds. It may add and remove targets, including itself."""
        ...


class TimerWheel:
    """A wheel of one event loop that turns once in `period` seconds.

    A target is first called within one period of `add`, then once per period; later if the loop is late.
    """

    # A weak reference to the loop and no handle of it: the loop's entry in `_WHEELS` would keep the loop alive.
    def __init__(self, loop: asyncio.AbstractEventLoop, period: float) -> None:
        slots = max(1, min(_SLOTS, int(period / _SHORTEST)))
        self._loop = ref(loop)
        self._period, self._tick_seconds = period, period / slots
        self._slots: list[set[TimerTarget]] = [set() for _ in range(slots)]
        self._size = self._position = self._next_slot = 0
        self._running = False
        """True if a timer for the next tick is set."""
        self._waits_period = False
        """True if that timer was set for a whole period."""
        self._timer = 0
        """The number of that timer."""

    def __len__(self) -> int:
        return self._size

    def add(self, target: TimerTarget) -> int:
        """Call `target` periodically from now on. Return the slot, which `remove` needs."""
        slots = self._slots
        if self._size:
            # Slots are filled in turn and not at the wheel's position: of a thousand targets added at once, each slot
            # gets its share.
            self._next_slot = slot = (self._next_slot + 1) % len(slots)
            if self._waits_period:
                self._schedule(self._tick_seconds)
        else:
            self._next_slot = slot = (self._position + 1) % len(slots)
            if not self._running:
                self._schedule(self._period)
                self._waits_period = True
        slots[slot].add(target)
        self._size += 1
        return slot

    def remove(self, target: TimerTarget, slot: int) -> None:
        """Stop calling `target`. Raises KeyError if it is not in the slot."""
        self._slots[slot].remove(target)
        self._size -= 1

    def _schedule(self, seconds: float) -> None:
        """Set the timer of the next tick. It replaces a pending one, which is not cancelled but ignored."""
        loop = self._loop()
        self._running, self._waits_period = loop is not None, False
        if loop is not None:
            self._timer += 1
            loop.call_later(seconds, self._tick, self._timer)

    def _tick(self, timer: int) -> None:
        if timer != self._timer:
            return
        if self._size:
            self._schedule(self._tick_seconds)
        else:
            self._running = self._waits_period = False
        self._position = position = (self._position + 1) % len(self._slots)
        slot = self._slots[position]
        loop = self._loop()
        if not slot or loop is None:
            return
        now = loop.time()
        for target in tuple(slot):
            if target in slot:  # a target called before may have removed it
                try:
                    target.on_tick(now)
                except Exception as error:
                    # The other targets of the slot must still be called.
                    context = {"message": "a target of the timer wheel failed", "exception": error}
                    loop.call_exception_handler(context)


_WHEELS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, TimerWheel]] = WeakKeyDictionary()


def timer_wheel(loop: asyncio.AbstractEventLoop, longest: float) -> TimerWheel:
    """Return the loop's wheel for targets to be called every `longest` seconds or more often.

    Periods are one second, halved and halved again, down to 1/256: a loop has at most nine wheels.
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
