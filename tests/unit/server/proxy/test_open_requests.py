"""The requests that a gateway is answering."""

from __future__ import annotations

import asyncio

from aiohttp.test_utils import make_mocked_request

from dragoman import DragomanError
from dragoman.aio import STOPPING, Timeouts
from dragoman_server.proxy.open_requests import OpenRequests


async def test_it_waits_until_the_last_request_has_ended() -> None:
    requests = OpenRequests()
    assert await requests.wait(0)
    timers = [requests.add(make_mocked_request("POST", "/"), Timeouts()) for _ in range(2)]
    assert len(requests) == 2
    assert set(requests) == set(timers)
    assert not await requests.wait(0.01)
    waiting = asyncio.create_task(requests.wait(30))
    await asyncio.sleep(0)
    requests.remove(timers[0])
    await asyncio.sleep(0)
    assert not waiting.done()
    requests.remove(timers[1])
    assert await waiting
    assert not requests


async def test_all_open_requests_end_with_the_failure() -> None:
    requests = OpenRequests()
    timers = requests.add(make_mocked_request("POST", "/"), Timeouts())
    failures: list[BaseException] = []
    timers.attach(failures.append, lambda: False)
    requests.expire(STOPPING)
    requests.remove(timers)
    (error,) = failures
    assert isinstance(error, DragomanError)
    assert error.failure == STOPPING
    assert error.failure is not STOPPING


async def test_a_request_without_a_client_is_open_until_it_is_removed() -> None:
    requests = OpenRequests()
    timers = requests.add_detached(Timeouts())
    assert not timers.client_gone()
    assert len(requests) == 1
    requests.remove(timers)
    assert len(requests) == 0
