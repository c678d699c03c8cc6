"""The timer wheel: it calls each target once per turn, spreads the calls, and does not tick while it is empty."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any, cast
from weakref import ref

import pytest

from dragoman.aio.timer_wheel import TimerWheel, timer_wheel
from support.manual_clock import ManualClock


class Clock(ManualClock):
    """A loop's clock and timers, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts: list[dict[str, Any]] = []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.contexts.append(context)

    def wheel(self, period: float) -> TimerWheel:
        return TimerWheel(cast("asyncio.AbstractEventLoop", self), period)


def timers(clock: Clock) -> int:
    """Number of armed timers."""
    return clock.pending


class Seen:
    """A watcher that notes when it was looked at."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_tick(self, now: float, /) -> None:
        self.times.append(now)


@pytest.mark.parametrize("period", [1.0, 0.25, 1 / 64, 1 / 256])
def test_each_target_is_called_once_per_period(period: float) -> None:
    clock = Clock()
    wheel = clock.wheel(period)
    watchers = [Seen() for _ in range(100)]
    begun = clock.time()
    for watcher in watchers:
        wheel.add(watcher)
    clock.advance(10 * period + period / 1000)
    for watcher in watchers:
        assert len(watcher.times) == 10
        assert watcher.times[0] - begun <= period * 1.001
        gaps = [after - before for before, after in zip(watcher.times, watcher.times[1:], strict=False)]
        assert all(gap == pytest.approx(period) for gap in gaps)


def test_many_targets_added_at_once_are_spread() -> None:
    clock = Clock()
    wheel = clock.wheel(1.0)
    watchers = [Seen() for _ in range(10_000)]
    for watcher in watchers:
        wheel.add(watcher)
    clock.advance(1.001)
    looks = Counter(watcher.times[0] for watcher in watchers)
    assert len(looks) == 16
    assert max(looks.values()) == 625


def test_an_empty_wheel_does_not_tick() -> None:
    clock = Clock()
    wheel = clock.wheel(1.0)
    assert timers(clock) == 0
    seen = Seen()
    slot = wheel.add(seen)
    assert timers(clock) == 1
    clock.advance(3)
    assert timers(clock) == 1
    wheel.remove(seen, slot)
    assert len(wheel) == 0
    clock.advance(1 / 16)
    assert timers(clock) == 0
    clock.advance(5)
    assert len(seen.times) == 3
    again = Seen()
    wheel.add(again)
    clock.advance(1.001)
    assert len(again.times) == 1


def test_one_timer_however_often_it_was_empty() -> None:
    clock = Clock()
    wheel = clock.wheel(1.0)
    for _ in range(50):
        seen = Seen()
        wheel.remove(seen, wheel.add(seen))
    assert timers(clock) == 1


def test_a_lone_target_waits_for_one_timer_of_a_whole_period() -> None:
    clock = Clock()
    wheel = clock.wheel(1.0)
    for _ in range(10):  # short requests, one after the other
        seen = Seen()
        slot = wheel.add(seen)
        clock.advance(0.05)
        wheel.remove(seen, slot)
        assert timers(clock) == 1
    last = Seen()
    wheel.add(last)
    clock.advance(0.51)
    assert [at - clock.time() for at in last.times] == [pytest.approx(-0.01)]  # a period after the first of all
    clock.advance(1)
    assert last.times[1] - last.times[0] == pytest.approx(1.0)


def test_a_second_target_does_not_wait_for_the_timer_of_a_lone_one() -> None:
    clock = Clock()
    wheel = clock.wheel(1.0)
    begun = clock.time()
    first, second = Seen(), Seen()
    wheel.add(first)
    clock.advance(0.95)
    wheel.add(second)
    clock.advance(10.06)
    assert first.times[0] - begun == pytest.approx(0.95 + 1 / 16)
    assert second.times[0] - begun == pytest.approx(0.95 + 2 / 16)
    for seen in first, second:
        gaps = [after - before for before, after in zip(seen.times, seen.times[1:], strict=False)]
        assert len(gaps) == 9
        assert gaps == [pytest.approx(1.0)] * 9
    assert timers(clock) == 1


def test_a_target_may_remove_itself_and_others() -> None:
    clock = Clock()
    wheel = clock.wheel(1 / 256)  # one slot
    slots: dict[Any, int] = {}
    looked: list[str] = []

    class Leaving:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_tick(self, now: float, /) -> None:
            looked.append(self.name)
            for watcher in list(slots):
                wheel.remove(watcher, slots.pop(watcher))

    for name in "abc":
        watcher = Leaving(name)
        slots[watcher] = wheel.add(watcher)
    clock.advance(0.1)
    assert len(looked) == 1
    assert len(wheel) == 0


def test_a_target_that_fails_does_not_stop_the_others() -> None:
    clock = Clock()
    wheel = clock.wheel(1 / 256)

    class Failing:
        def on_tick(self, now: float, /) -> None:
            raise RuntimeError("mine")

    seen = Seen()
    for watcher in (Failing(), seen, Failing()):
        wheel.add(watcher)
    clock.advance(2 / 256)
    assert len(seen.times) == 2
    assert [str(context["exception"]) for context in clock.contexts] == ["mine"] * 4


async def test_a_loop_has_one_wheel_per_period_and_few_periods() -> None:
    loop = asyncio.get_running_loop()
    assert timer_wheel(loop, 15.0) is timer_wheel(loop, 1.0)
    assert timer_wheel(loop, 0.3) is timer_wheel(loop, 0.25)
    assert timer_wheel(loop, 0.24) is not timer_wheel(loop, 0.25)
    assert timer_wheel(loop, 0.0) is timer_wheel(loop, 1e-9)
    assert len({id(timer_wheel(loop, seconds / 10_000)) for seconds in range(20_000)}) == 9


def test_a_wheel_does_not_keep_its_loop() -> None:
    loop = asyncio.new_event_loop()
    seen = Seen()
    timer_wheel(loop, 1.0).add(seen)
    loop.close()
    gone = ref(loop)
    del loop
    gc.collect()
    assert gone() is None
