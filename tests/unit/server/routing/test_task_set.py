"""Tests of the tasks that an owner keeps alive."""

from __future__ import annotations

import asyncio
import gc

from dragoman_server.routing.task_set import TaskSet


async def test_a_task_is_kept_until_its_end() -> None:
    tasks, go_on, done = TaskSet(), asyncio.Event(), []

    async def work() -> None:
        await go_on.wait()
        done.append(True)

    tasks.begin(work())
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    go_on.set()
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    assert done == [True]
    assert not tasks


async def test_a_task_that_is_cancelled_leaves_the_set() -> None:
    tasks = TaskSet()
    tasks.begin(asyncio.Event().wait())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    assert not tasks
