"""Callbacks and coroutines that are run a few per turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from functools import partial

import pytest

from dragoman.aio.few_per_turn import SECONDS, FewPerTurn
from support.clocks import Clock

MOST = 3
COUNTS = pytest.mark.parametrize("count", [1, MOST, MOST + 1, 5 * MOST])


class Turns:
    """Counts what is done in each turn of the event loop, and its order."""

    def __init__(self) -> None:
        self.turn = 0
        self.order: list[int] = []
        self.by_turn: Counter[int] = Counter()

    def do(self, number: int) -> None:
        self.by_turn[self.turn] += 1
        self.order.append(number)

    async def pass_by(self, count: int) -> None:
        for _ in range(count):
            self.turn += 1
            await asyncio.sleep(0)


@COUNTS
async def test_a_turn_has_few_of_many_callbacks(count: int) -> None:
    """None waits while there are few. Those that wait are called in order, with the variables of their callers."""
    clock = Clock()
    turns, few = Turns(), FewPerTurn(MOST, clock=clock)
    current = ContextVar("current", default=-1)

    def callback(number: int) -> None:
        turns.do(number)
        assert current.get() == number

    for number in range(count):
        current.set(number)
        few.call(partial(callback, number))
    assert len(turns.order) == min(count, MOST)
    await turns.pass_by(count)
    assert turns.order == [*range(count)]
    assert max(turns.by_turn.values()) <= MOST
    clock.now += SECONDS
    current.set(count)
    few.call(partial(callback, count))
    assert turns.order[-1] == count, "at once again"


@COUNTS
async def test_a_turn_has_few_of_many_coroutines(count: int) -> None:
    turns, few = Turns(), FewPerTurn(MOST, clock=Clock())

    async def work(number: int) -> None:
        if not few.has_room():
            await few.next_turn()
        turns.do(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(work(number))
        await turns.pass_by(2 * count)
        assert turns.order == [*range(count)]
        # The futures of a turn resume their tasks in the next one.
        assert max(turns.by_turn.values()) <= MOST


@pytest.mark.parametrize(("seconds", "times"), [(0.0, 1), (1.0, 1), (1.5, 1.5), (4.0, 4)])
async def test_a_long_turn_has_more_of_them(seconds: float, times: float) -> None:
    """Else those that wait would have no share of the time of a busy event loop."""
    clock = Clock()
    turns, few = Turns(), FewPerTurn(4, clock=clock)
    for number in range(100):
        few.call(partial(turns.do, number))
    for _ in range(3):
        clock.now += seconds * SECONDS
        await turns.pass_by(1)
    assert turns.by_turn == {0: 4, **dict.fromkeys((1, 2, 3), 4 * times)}


async def test_a_cancelled_coroutine_takes_no_place() -> None:
    turns, few = Turns(), FewPerTurn(1, clock=Clock())

    async def work(number: int) -> None:
        if not few.has_room():
            await few.next_turn()
        turns.do(number)

    tasks = [asyncio.create_task(work(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await turns.pass_by(8)
    assert turns.order == [0, 2, 3]


async def test_others_may_go_first() -> None:
    """While callbacks wait that go first, those that wait for room go on waiting. Then they are all called."""
    turns, first = Turns(), FewPerTurn(MOST, clock=Clock())
    then = FewPerTurn(MOST, first, clock=Clock())
    for number in range(5 * MOST):
        then.call(partial(turns.do, 100 + number))
        first.call(partial(turns.do, number))
    await turns.pass_by(3)
    assert [number for number in turns.order if number >= 100] == [100, 101, 102]
    await turns.pass_by(12)
    assert [number for number in turns.order if number < 100] == [*range(5 * MOST)]
    assert [number for number in turns.order if number >= 100] == [*range(100, 100 + 5 * MOST)]


async def test_a_callback_that_fails_keeps_no_other_waiting() -> None:
    turns, few = Turns(), FewPerTurn(1, clock=Clock())
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise ValueError("a defect")

    few.call(partial(turns.do, 0))
    few.call(fail)
    few.call(partial(turns.do, 1))
    await turns.pass_by(3)
    assert turns.order == [0, 1]
    assert [type(failure) for failure in failures] == [ValueError]
