"""Work that reads an answer and waits for a client, by hand: to be awaited or inline, and to be compared."""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any

from dragoman.aio.trampoline import InlineTask


@types.coroutine
def parked() -> Generator[None, None, None]:
    """Wait as a reader does that is resumed by a callback."""
    yield None


class Answer:
    """An answer by hand, as a transport gives it: pushed once `on_arrival` was called, by futures before."""

    def __init__(self) -> None:
        self.items: deque[str] = deque()
        self.ended = self.parked = False
        self.error: Exception | None = None
        self.step: Callable[[], None] | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.steps = 0

    def on_arrival(self, step: Callable[[], None] | None, /) -> None:
        self.step = step

    def arrive(self, item: str) -> None:
        self.items.append(item)
        self.wake()

    def end(self, error: Exception | None = None) -> None:
        self.ended, self.error = True, error
        self.wake()

    def wake(self) -> None:
        if self.parked and self.step is not None:
            self.parked = False
            self.steps += 1
            self.step()
        elif self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def batches(self) -> AsyncGenerator[str, None]:
        try:
            while True:
                if self.items:
                    yield self.items.popleft()
                elif self.error is not None:
                    raise self.error
                elif self.ended:
                    return
                elif self.step is not None:
                    self.parked = True
                    await parked()
                else:
                    self.waiter = asyncio.get_running_loop().create_future()
                    await self.waiter
        finally:
            self.parked = False


class Scene:
    """Work on an answer that also waits for futures, and all that it does, in order."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.log: list[str] = []
        self.drains: list[asyncio.Future[None]] = []

    async def drain(self, name: str) -> None:
        self.log.append(f"waits for {name}")
        self.drains.append(asyncio.get_running_loop().create_future())
        await self.drains[-1]
        self.log.append("goes on")

    async def work(self) -> str:
        try:
            async with aclosing(self.answer.batches()) as batches:
                async for item in batches:
                    self.log.append(item)
                    if item == "slow":
                        await self.drain("the client")
                    elif item == "inner":
                        self.answer.arrive("from within")
                    elif item == "task":
                        await asyncio.ensure_future(self.drain("a task"))
                    elif item == "defect":
                        raise ValueError("a defect")
                    elif item == "enough":
                        return "had enough"
        except asyncio.CancelledError:
            self.log.append("cancelled")
            await self.drain("the last words")
            raise
        finally:
            self.log.append("closed")
        return "all"

    def drained(self) -> None:
        for future in self.drains:
            if not future.done():
                future.set_result(None)
                return


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def play(script: list[str], *, inline: bool) -> tuple[list[Any], str, Scene]:
    """The log after each step of a script, and how it ended."""
    scene = Scene()

    async def handler() -> str:
        if not inline:
            return await scene.work()
        task = InlineTask(scene.work(), scene.answer.on_arrival)
        task.start()
        return await task

    states: list[Any] = []
    task = asyncio.get_running_loop().create_task(handler())
    for step in script:
        if step == "cancel":
            task.cancel("by the script")
        elif step == "drained":
            scene.drained()
        elif step == "end":
            scene.answer.end()
        elif step == "fail":
            scene.answer.end(OSError("cut"))
        else:
            scene.answer.arrive(step)
        await settle()
        states.append((list(scene.log), task.done()))
    for _ in range(40):
        if task.done():
            break
        scene.drained()
        scene.answer.end()
        await settle()
    assert task.done()
    if task.cancelled():
        ended = "cancelled"
    else:
        error = task.exception()
        ended = repr(error) if error is not None else task.result()
    return states, ended, scene
