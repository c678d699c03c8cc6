"""The pump's law: whatever arrives, whoever waits or is cancelled, it is what plain awaiting is."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.trampoline import InlineTask
from support.scenes import Scene, parked, play, settle

ASKED_BY: ContextVar[str] = ContextVar("ASKED_BY", default="nobody")


STEPS = ("a", "b", "slow", "inner", "task", "defect", "enough", "drained", "drained", "cancel", "end", "fail")
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


@LOOPS
@given(script=st.lists(st.sampled_from(STEPS), max_size=14))
def test_law_a_pumped_coroutine_does_what_an_awaited_one_does(
    loop: Callable[[], asyncio.AbstractEventLoop], script: list[str]
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        plain, ended, _ = runner.run(play(script, pumped=False))
        states, how, scene = runner.run(play(script, pumped=True))
    assert states == plain
    assert how == ended
    assert scene.answer.step is None, "it must not be stepped behind its end"


# --- what the law does not tell -------------------------------------------------------------------------------------


def pumped(scene: Scene, work: Coroutine[Any, Any, Any] | None = None) -> InlineTask[Any]:
    return InlineTask(work or scene.work(), scene.answer.on_arrival)


async def awaited(pump: InlineTask[Any]) -> Any:
    return await pump


async def test_each_arrival_is_worked_on_before_the_transport_gets_control_back() -> None:
    scene = Scene()
    pump = pumped(scene)
    pump.start()
    for number in range(5):
        scene.answer.arrive(f"chunk {number}")
        assert scene.log[-1] == f"chunk {number}"
    assert scene.answer.steps == 5
    scene.answer.end()
    assert scene.log[-1] == "closed"
    assert await pump == "all"


async def test_the_representation_shows_what_it_waits_for() -> None:
    scene = Scene()
    pump = pumped(scene)
    pump.start()
    assert repr(pump) == "<InlineTask parked>"
    scene.answer.arrive("slow")
    assert repr(pump) == "<InlineTask waiting for a future>"
    scene.drained()
    await settle()
    pump.detach(lambda: None)
    assert repr(pump) == "<InlineTask parked detached>"
    scene.answer.end()
    assert repr(pump) == "<InlineTask done detached>"


async def test_a_step_from_within_counts_afterwards() -> None:
    scene = Scene()
    turns: list[str] = []

    async def work() -> str:
        for turn in range(3):
            turns.append(f"begins {turn}")
            if turn < 2:
                pump.resume()  # e.g. a write that breaks the connection, which is told at once
            turns.append(f"ends {turn}")
            await parked()
        return "done"

    pump = pumped(scene, work())
    pump.start()
    assert turns == ["begins 0", "ends 0", "begins 1", "ends 1", "begins 2", "ends 2"]
    pump.resume()
    assert await pump == "done"
    pump.resume()


async def test_the_work_runs_in_the_handlers_context_whoever_steps_it() -> None:
    scene = Scene()
    seen: list[str] = []

    async def work() -> None:
        async with aclosing(scene.answer.batches()) as batches:
            async for item in batches:
                seen.append(ASKED_BY.get())
                if item == "slow":
                    await scene.drain("the client")
                    seen.append(ASKED_BY.get())
                ASKED_BY.set(f"{ASKED_BY.get()}+")

    async def handler() -> str:
        ASKED_BY.set("handler")
        pump = pumped(scene, work())
        pump.start()
        await pump
        return ASKED_BY.get()

    ASKED_BY.set("transport")
    task = asyncio.create_task(handler())
    await settle()
    for item in ("a", "slow", "b"):
        scene.answer.arrive(item)
        scene.drained()
        await settle()
    scene.answer.end()
    assert await task == "handler"
    assert seen == ["handler", "handler+", "handler+", "handler++"]
    assert ASKED_BY.get() == "transport"


async def test_after_a_cancellation_the_cleanup_runs_in_the_handlers_task() -> None:
    scene = Scene()

    async def work() -> None:
        try:
            async with aclosing(scene.answer.batches()) as batches:
                async for _ in batches:
                    pass
        finally:
            assert asyncio.current_task() is task
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            await asyncio.sleep(0)
            scene.log.append("clean")

    pump = pumped(scene, work())
    pump.start()
    task = asyncio.create_task(awaited(pump))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log == ["clean"]


async def test_a_second_cancellation_reaches_the_cleanup() -> None:
    scene = Scene()
    pump = pumped(scene)
    pump.start()
    task = asyncio.create_task(awaited(pump))
    await settle()
    task.cancel()
    await settle()
    assert scene.log == ["cancelled", "waits for the last words"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log[-1] == "closed"


async def test_a_cancellation_at_the_moment_of_the_end_is_one() -> None:
    scene = Scene()
    pump = pumped(scene)
    pump.start()
    task = asyncio.create_task(awaited(pump))
    await settle()
    scene.answer.end()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log == ["closed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_stops_the_loop_is_raised_to_it_too(error: type[BaseException]) -> None:
    scene = Scene()

    async def work() -> None:
        await parked()
        raise error

    pump = pumped(scene, work())
    pump.start()
    with pytest.raises(error):
        pump.resume()
    with pytest.raises(error):
        await pump


async def test_what_is_no_future_cannot_be_awaited() -> None:
    scene = Scene()

    @types.coroutine
    def foreign() -> Generator[int, None, None]:
        yield 5

    async def work() -> None:
        try:
            await foreign()
        finally:
            scene.log.append("closed")

    pump = pumped(scene, work())
    pump.start()
    with pytest.raises(RuntimeError, match="awaited 5"):
        await pump
    assert scene.log == ["closed"]


async def test_a_handler_that_is_dropped_closes_the_work() -> None:
    scene = Scene()

    async def work() -> None:
        try:
            await parked()
        finally:
            scene.log.append("closed")

    pump = pumped(scene, work())
    pump.start()
    handler = awaited(pump)
    handler.send(None)
    handler.close()
    assert scene.log == ["closed"]
    assert scene.answer.step is None


@pytest.mark.parametrize("item", ["enough", "defect"])
async def test_work_that_never_waits(item: str) -> None:
    scene = Scene()
    scene.answer.arrive(item)
    pump = pumped(scene)
    pump.start()
    assert scene.answer.step is None
    if item == "enough":
        assert await pump == "had enough"
    else:
        with pytest.raises(ValueError, match="a defect"):
            await pump
