"""`InlineTask`: whatever arrives, waits or is cancelled, it behaves as plain awaiting does."""

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

ASKED_BY: ContextVar[str] = ContextVar("ASKED_BY", default="")


STEPS = ("a", "b", "slow", "inner", "task", "defect", "enough", "drained", "drained", "cancel", "end", "fail")
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


@LOOPS
@given(script=st.lists(st.sampled_from(STEPS), max_size=14))
def test_law_a_coroutine_run_inline_does_what_an_awaited_one_does(
    loop: Callable[[], asyncio.AbstractEventLoop], script: list[str]
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        plain, ended, _ = runner.run(play(script, inline=False))
        states, how, scene = runner.run(play(script, inline=True))
    assert states == plain
    assert how == ended
    assert scene.answer.step is None, "it must not be resumed after its end"


# --- what the law does not cover ------------------------------------------------------------------------------------


def run_inline(scene: Scene, work: Coroutine[Any, Any, Any] | None = None) -> InlineTask[Any]:
    return InlineTask(work or scene.work(), scene.answer.on_arrival)


async def awaited(inline: InlineTask[Any]) -> Any:
    return await inline


async def test_each_arrival_is_processed_before_the_transport_continues() -> None:
    scene = Scene()
    inline = run_inline(scene)
    inline.start()
    for number in range(5):
        scene.answer.arrive(f"chunk {number}")
        assert scene.log[-1] == f"chunk {number}"
    assert scene.answer.steps == 5
    scene.answer.end()
    assert scene.log[-1] == "closed"
    assert await inline == "all"


async def test_the_representation_shows_what_it_waits_for() -> None:
    scene = Scene()
    inline = run_inline(scene)
    inline.start()
    assert repr(inline) == "<InlineTask parked>"
    scene.answer.arrive("slow")
    assert repr(inline) == "<InlineTask waiting for a future>"
    scene.drained()
    await settle()
    inline.detach(lambda: None)
    assert repr(inline) == "<InlineTask parked detached>"
    scene.answer.end()
    assert repr(inline) == "<InlineTask done detached>"


async def test_resume_from_within_the_coroutine_takes_effect_after_it() -> None:
    scene = Scene()
    turns: list[str] = []

    async def work() -> str:
        for turn in range(3):
            turns.append(f"begins {turn}")
            if turn < 2:
                inline.resume()  # e.g. a write that breaks the connection, which is reported at once
            turns.append(f"ends {turn}")
            await parked()
        return "done"

    inline = run_inline(scene, work())
    inline.start()
    assert turns == ["begins 0", "ends 0", "begins 1", "ends 1", "begins 2", "ends 2"]
    inline.resume()
    assert await inline == "done"
    inline.resume()


async def test_the_coroutine_runs_in_the_handlers_context() -> None:
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
        inline = run_inline(scene, work())
        inline.start()
        await inline
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

    inline = run_inline(scene, work())
    inline.start()
    task = asyncio.create_task(awaited(inline))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log == ["clean"]


async def test_a_second_cancellation_reaches_the_cleanup() -> None:
    scene = Scene()
    inline = run_inline(scene)
    inline.start()
    task = asyncio.create_task(awaited(inline))
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
    inline = run_inline(scene)
    inline.start()
    task = asyncio.create_task(awaited(inline))
    await settle()
    scene.answer.end()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.log == ["closed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_exceptions_that_stop_the_loop_are_raised_to_it_too(error: type[BaseException]) -> None:
    scene = Scene()

    async def work() -> None:
        await parked()
        raise error

    inline = run_inline(scene, work())
    inline.start()
    with pytest.raises(error):
        inline.resume()
    with pytest.raises(error):
        await inline


async def test_only_futures_can_be_awaited() -> None:
    scene = Scene()

    @types.coroutine
    def foreign() -> Generator[int, None, None]:
        yield 5

    async def work() -> None:
        try:
            await foreign()
        finally:
            scene.log.append("closed")

    inline = run_inline(scene, work())
    inline.start()
    with pytest.raises(RuntimeError, match="awaited 5"):
        await inline
    assert scene.log == ["closed"]


async def test_a_handler_that_is_dropped_closes_the_coroutine() -> None:
    scene = Scene()

    async def work() -> None:
        try:
            await parked()
        finally:
            scene.log.append("closed")

    inline = run_inline(scene, work())
    inline.start()
    handler = awaited(inline)
    handler.send(None)
    handler.close()
    assert scene.log == ["closed"]
    assert scene.answer.step is None


@pytest.mark.parametrize("item", ["enough", "defect"])
async def test_a_coroutine_that_never_waits(item: str) -> None:
    scene = Scene()
    scene.answer.arrive(item)
    inline = run_inline(scene)
    inline.start()
    assert scene.answer.step is None
    if item == "enough":
        assert await inline == "had enough"
    else:
        with pytest.raises(ValueError, match="a defect"):
            await inline


async def test_cancel_wait_cancels_a_future_and_not_an_arrival() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    steps: list[Callable[[], None] | None] = []

    async def work() -> None:
        await parked()
        await future

    inline = InlineTask(work(), steps.append)
    inline.start()
    inline.cancel_wait()
    assert inline.running
    resume = steps[-1]
    assert resume is not None
    resume()
    inline.cancel_wait()
    await settle()
    assert future.cancelled()
    assert not inline.running
    with pytest.raises(asyncio.CancelledError):
        await inline
