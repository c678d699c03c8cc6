"""Calls that block: their results and exceptions, and one that hangs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dragoman_server.credentials.credential import SourceError
from dragoman_server.credentials.daemon_thread import DaemonThread


async def test_results_and_exceptions() -> None:
    thread: DaemonThread[object] = DaemonThread("lib")
    name = await thread.call(lambda: threading.current_thread().name)
    assert name == "dragoman lib"

    def fail() -> object:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await thread.call(fail)


async def test_a_call_that_hangs_is_the_only_one() -> None:
    thread: DaemonThread[int] = DaemonThread("lib", 0.05)
    release = threading.Event()

    def hang() -> int:
        release.wait(60)
        return 1

    with pytest.raises(SourceError, match=r"lib gave no credential within 0\.05 s"):
        await thread.call(hang)
    with pytest.raises(SourceError, match="an earlier call of lib still hangs"):
        await thread.call(lambda: 2)
    assert thread._thread is not None
    assert thread._thread.daemon
    release.set()
    await asyncio.to_thread(thread._thread.join, 10)
    thread._seconds = 10.0
    assert await thread.call(lambda: 2) == 2


async def test_a_caller_that_has_gone_does_not_matter() -> None:
    thread: DaemonThread[int] = DaemonThread("lib")
    release = threading.Event()
    task = asyncio.create_task(thread.call(lambda: int(release.wait(60))))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert thread._thread is not None
    await asyncio.to_thread(thread._thread.join, 10)
