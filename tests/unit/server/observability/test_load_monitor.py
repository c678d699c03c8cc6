"""The load of one process, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from dragoman_server.config.overload import Overload
from dragoman_server.observability.load_monitor import FREE_SECONDS, TICK, WINDOW, LoadMonitor
from dragoman_server.observability.metric_families import LAG, LAG_MAX, TASKS, Totals
from support.clocks import Clock
from support.gateways import until


class Load:
    """A monitor with what it measures."""

    def __init__(self, overload: Overload) -> None:
        self.clock = Clock()
        self.totals = Totals()
        self.open, self.resident = 0, 1 << 20
        self.unused = 0
        """Bytes of the resident memory that the process does not use."""
        self.freed: list[float] = []
        """The times at which memory was freed."""
        self.monitor = LoadMonitor(
            self.totals, overload, lambda: self.open, clock=self.clock, memory=lambda: self.resident, free=self.free
        )

    def free(self) -> None:
        self.freed.append(self.clock.now)
        self.resident, self.unused = self.resident - self.unused, 0

    def tick(self, lag: float = 0.0) -> None:
        """One measurement of a timer that is so late."""
        self.monitor._due = self.clock.now
        self.clock.now += lag
        self.monitor.measure()

    def longest(self) -> float:
        totals = Totals()
        self.monitor.add_gauges(totals)
        return totals.read(LAG_MAX)[0]


def test_lags_are_counted() -> None:
    load = Load(Overload())
    for lag in (0.0, 0.003, 0.2):
        load.tick(lag)
    numbers = load.totals.read(LAG)
    assert sum(numbers[:-1]) == 3
    assert numbers[-1] == pytest.approx(0.203)


def test_the_longest_lag_is_forgotten_after_a_while() -> None:
    load = Load(Overload())
    load.tick(0.75)
    for _ in range(WINDOW):
        load.tick()
    assert load.longest() == pytest.approx(0.75)
    for _ in range(WINDOW):
        load.tick()
    assert load.longest() == 0


def test_one_long_callback_is_no_overload() -> None:
    load = Load(Overload(event_loop_lag=1.0))
    load.tick(3.0)
    assert (load.monitor.reason(), load.monitor.checked) == (None, False)
    load.tick(0.5)
    load.tick(3.0)
    assert load.monitor.reason() is None
    load.tick(1.5)
    assert (load.monitor.reason(), load.monitor.checked) == ("event_loop_lag", True)
    load.tick(0.5)
    assert (load.monitor.reason(), load.monitor.checked) == (None, False)


def test_memory_above_its_bound() -> None:
    load = Load(Overload(memory=1 << 30))
    load.tick()
    assert load.monitor.reason() is None
    load.resident = (1 << 30) + 1
    load.tick()
    assert load.monitor.reason() == "memory"
    load.monitor.configure(Overload())
    assert load.monitor.reason() is None


def test_memory_that_is_not_used_is_no_overload() -> None:
    """After a load has ended, the process may still have its memory: it must not reject requests for ever."""
    load = Load(Overload(memory=1 << 30))
    load.resident, load.unused = 2 << 30, 3 << 29
    load.tick()
    assert load.monitor.reason() is None
    assert len(load.freed) == 1


def test_memory_is_freed_from_time_to_time_while_it_exceeds_its_bound() -> None:
    load = Load(Overload(memory=1 << 30))
    load.resident = 2 << 30
    for _ in range(100):
        load.tick()
        assert load.monitor.reason() == "memory"
        load.clock.now += TICK
    assert [after - before for before, after in pairwise(load.freed)] == [FREE_SECONDS] * 2


def test_memory_that_is_not_known_is_no_overload() -> None:
    def unknown() -> int:
        raise FileNotFoundError("/proc/self/statm")

    monitor = LoadMonitor(Totals(), Overload(memory=1), lambda: 0, clock=Clock(), memory=unknown)
    monitor.measure()
    assert monitor.reason() is None


def test_open_requests_at_their_bound() -> None:
    load = Load(Overload(open_requests=2))
    assert load.monitor.checked
    load.open = 2
    assert load.monitor.reason() is None
    assert load.monitor.reason(1) == "open_requests"
    load.open = 3
    assert load.monitor.reason() == "open_requests"


def test_no_bounds() -> None:
    load = Load(Overload(event_loop_lag=0))
    load.open = load.resident = 1 << 60
    for _ in range(3):
        load.tick(3600.0)
    assert (load.monitor.reason(1), load.monitor.checked) == (None, False)


async def test_it_measures_until_it_is_stopped() -> None:
    totals = Totals()
    monitor = LoadMonitor(totals, Overload(), lambda: 0)
    calls: list[int] = []
    monitor.on_tick.append(lambda: calls.append(1))
    monitor.start()
    await until(lambda: len(calls) >= 2)
    monitor.stop()
    count = len(calls)
    await asyncio.sleep(TICK * 2)
    assert len(calls) == count == sum(totals.read(LAG)[:-1])


async def test_the_tasks_of_the_loop_are_a_gauge_while_it_measures() -> None:
    monitor, gauges = LoadMonitor(Totals(), Overload(), lambda: 0), Totals()
    monitor.add_gauges(gauges)
    assert gauges.read(TASKS) == [0]
    monitor.start()
    waiting = asyncio.create_task(asyncio.Event().wait())
    monitor.add_gauges(gauges)
    assert gauges.read(TASKS) == [len(asyncio.all_tasks())]
    assert len(asyncio.all_tasks()) >= 2
    waiting.cancel()
    monitor.stop()
