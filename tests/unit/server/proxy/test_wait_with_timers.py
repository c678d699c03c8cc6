"""A wait ends by its result, its time, or what ends the request."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from dragoman import DragomanError
from dragoman.aio import STOPPING, ClientGone, StreamTimers, Timeouts
from dragoman_server.proxy.wait_with_timers import set_once, wait_with_timers


def parts() -> tuple[StreamTimers, asyncio.Future[bool]]:
    return StreamTimers(Timeouts(first_byte=0.05, idle=0.05)), asyncio.get_running_loop().create_future()


async def test_a_result_ends_the_wait() -> None:
    timers, future = parts()
    asyncio.get_running_loop().call_soon(set_once, future, True)
    assert await wait_with_timers(timers, 60, future)
    set_once(future, False)
    assert future.result()


async def test_time_ends_the_wait_and_no_timeout_of_the_upstream_does() -> None:
    timers, future = parts()
    assert not await wait_with_timers(timers, 0.3, future)


@pytest.mark.parametrize("error", [ClientGone(), DragomanError(STOPPING)])
async def test_the_end_of_the_request_ends_the_wait(error: Exception) -> None:
    timers, future = parts()
    asyncio.get_running_loop().call_soon(partial(timers.expire, error))
    with pytest.raises(type(error)):
        await wait_with_timers(timers, 60, future)


async def test_a_late_error_changes_nothing() -> None:
    timers, future = parts()
    set_once(future, True)
    assert await wait_with_timers(timers, 60, future)
    timers.expire(ClientGone())
