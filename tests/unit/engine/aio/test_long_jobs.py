"""Jobs in a thread next to the event loop: one at a time, clients in turn."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextvars import ContextVar

import pytest

from dragoman.aio.long_jobs import LongJobs, off_loop
from support.waiting import turns, until

WORD: ContextVar[str] = ContextVar("word", default="none")


async def test_a_job_runs_beside_the_loop_with_the_context_of_its_caller() -> None:
    WORD.set("caller's")
    found = await off_loop("a", lambda: (threading.current_thread(), WORD.get(), gc.isenabled()))
    assert found[0] is not threading.main_thread()
    assert found[1:] == ("caller's", False)
    assert gc.isenabled()


async def test_the_error_of_a_job_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await off_loop("a", fail)
    assert gc.isenabled()
    assert await off_loop("a", lambda: 1) == 1


async def test_the_loop_has_turns_while_a_job_runs() -> None:
    ended = threading.Event()
    job = asyncio.create_task(off_loop("a", lambda: ended.wait(10)))
    await turns(20)
    assert not job.done()
    ended.set()
    assert await job


async def test_clients_take_turns_whatever_the_number_of_their_jobs() -> None:
    jobs, go, order = LongJobs(), threading.Event(), list[str]()
    names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"]

    def job(name: str) -> None:
        go.wait(10)
        order.append(name)

    tasks = []
    for name in names:
        tasks.append(asyncio.create_task(jobs.run(name[0], lambda name=name: job(name))))  # type: ignore[misc]
        await turns()
    go.set()
    await asyncio.gather(*tasks)
    assert order[0] == "a1"
    assert set(order[1:3]) == {"b1", "c1"}, "one job of each other client, before the second of the first"
    assert [name for name in order if name.startswith("a")] == ["a1", "a2", "a3", "a4"]


async def test_one_job_runs_at_a_time_and_cancelled_ones_are_not_begun() -> None:
    jobs, go, running, most = LongJobs(), threading.Event(), list[int](), list[int]()

    def job(number: int) -> None:
        running.append(number)
        most.append(len(running))
        go.wait(10)
        running.remove(number)

    tasks = [asyncio.create_task(jobs.run(client, lambda n=client: job(n))) for client in range(5)]  # type: ignore[misc]
    await until(lambda: running)
    for task in tasks[:4]:
        task.cancel()
    await turns()
    go.set()
    await tasks[4]
    assert most == [1, 1], "the first, which had begun, and the last"
    assert gc.isenabled()


async def test_nothing_is_kept_of_clients_without_jobs() -> None:
    jobs = LongJobs()
    for client in range(100):
        await jobs.run(client, lambda: None)
    assert len(jobs._turns) <= 1
