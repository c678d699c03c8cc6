"""The turns of long work."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from dragoman.aio.long_work import AT_ONCE, LITTLE, TOGETHER, long_work, next_turn

MUCH = LITTLE + 1


def counted_turns() -> list[int]:
    """Return a list to which the number of each of the next turns is added."""
    loop, numbers = asyncio.get_running_loop(), [0]

    def turn() -> None:
        numbers.append(numbers[-1] + 1)
        if len(numbers) < 10_000:
            loop.call_soon(turn)

    loop.call_soon(turn)
    return numbers


async def test_others_have_a_turn() -> None:
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "other")
    await next_turn()
    order.append("next")
    assert order == ["other", "next"]


@pytest.mark.parametrize("streams", [1, 2, 7])
async def test_a_turn_has_one_part_of_all_streams_together(streams: int) -> None:
    parts: Counter[int] = Counter()
    order: list[int] = []

    async def stream(name: int) -> None:
        for _ in range(5):
            await next_turn(MUCH)
            parts[numbers[-1]] += 1
            order.append(name)

    numbers = counted_turns()
    await asyncio.gather(*(stream(name) for name in range(streams)))
    assert max(parts.values()) == 1
    assert not any(turn + 1 in parts for turn in parts), "the turn after it is free"
    assert order == list(range(streams)) * 5, "they share the turns in the order in which they came"


@pytest.mark.parametrize("fast", [0, 10, 1000])
async def test_a_stream_with_little_left_does_not_wait_for_the_fast_ones(fast: int) -> None:
    """It has a part every other turn but one, whatever their number."""

    async def flood() -> None:
        while True:
            await next_turn(MUCH)

    floods = [asyncio.ensure_future(flood()) for _ in range(fast)]
    await asyncio.sleep(0)
    numbers = counted_turns()
    for _ in range(100):
        await next_turn(LITTLE)
    assert numbers[-1] <= 100 * 4
    for task in floods:
        task.cancel()


@pytest.mark.parametrize(("left", "most"), [(LITTLE, 1), (LITTLE // 5, 5), (1, TOGETHER)])
async def test_a_turn_has_few_parts_of_many_streams_with_little_left(left: int, most: int) -> None:
    parts: Counter[int] = Counter()

    async def stream(left: int) -> None:
        for _ in range(3):
            await next_turn(left)
            parts[numbers[-1]] += 1

    numbers = counted_turns()
    await asyncio.gather(*(stream(left) for left in [left, MUCH] * 100))
    assert max(parts.values()) == most + 1
    assert not any(turn + 1 in parts for turn in parts), "the turn after it is free"


async def test_a_fast_stream_goes_on_beside_many_with_little_left() -> None:
    async def small() -> None:
        while True:
            await next_turn(1)

    many = [asyncio.ensure_future(small()) for _ in range(100)]
    await asyncio.sleep(0)
    numbers = counted_turns()
    for _ in range(10):
        await next_turn(MUCH)
    assert numbers[-1] <= 10 * 10
    for task in many:
        task.cancel()


@pytest.mark.parametrize("size", [AT_ONCE, AT_ONCE // 4, AT_ONCE // 4 + 1, 1])
async def test_a_turn_has_several_short_parts_of_fast_streams(size: int) -> None:
    parts: Counter[int] = Counter()

    async def stream() -> None:
        for _ in range(3):
            await next_turn(MUCH, size)
            parts[numbers[-1]] += 1

    numbers = counted_turns()
    await asyncio.gather(*(stream() for _ in range(100)))
    assert max(parts.values()) == min(TOGETHER, AT_ONCE // size)


@pytest.mark.parametrize("size", [AT_ONCE * 2, AT_ONCE, AT_ONCE // 4, AT_ONCE // 4 + 1, 1000])
async def test_a_turn_works_on_some_bytes_at_once(size: int) -> None:
    work = long_work(asyncio.get_running_loop())
    for _ in range(3):
        assert [work.has_room(size) for _ in range(100)].count(True) == max(1, AT_ONCE // size)
        await asyncio.sleep(0)


async def test_nothing_overtakes_what_waits() -> None:
    work = long_work(asyncio.get_running_loop())
    waiting = asyncio.ensure_future(next_turn())
    await asyncio.sleep(0)
    assert not work.has_room(1)
    await waiting
    assert work.has_room(1)


async def test_a_part_that_fails_does_not_stop_the_others() -> None:
    errors: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    done: list[str] = []

    def fail() -> None:
        raise ValueError("a part")

    work = long_work(loop)
    work.add(fail, 0)
    work.add(lambda: done.append("after it"), 0)
    await next_turn()
    assert done == ["after it"]
    assert [str(error) for error in errors] == ["a part"]


async def test_a_stream_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    first = asyncio.ensure_future(next_turn())
    second = asyncio.ensure_future(next_turn())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 30)
    assert first.cancelled()
