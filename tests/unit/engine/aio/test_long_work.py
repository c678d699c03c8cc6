"""The turns of long work."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from dragoman.aio.long_work import long_work, next_turn


def counted_turns() -> list[int]:
    """Return a list to which the number of each of the next turns is added."""
    loop, numbers = asyncio.get_running_loop(), [0]

    def turn() -> None:
        numbers.append(numbers[-1] + 1)
        if len(numbers) < 1000:
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
            await next_turn()
            parts[numbers[-1]] += 1
            order.append(name)

    numbers = counted_turns()
    await asyncio.gather(*(stream(name) for name in range(streams)))
    assert max(parts.values()) == 1
    assert not any(turn + 1 in parts for turn in parts), "the turn after it is free"
    assert order == list(range(streams)) * 5, "they share the turns in the order in which they came"


async def test_a_part_that_fails_does_not_stop_the_others() -> None:
    errors: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
    done: list[str] = []

    def fail() -> None:
        raise ValueError("a part")

    work = long_work(loop)
    work.add(fail)
    work.add(lambda: done.append("after it"))
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
