"""A retry waits for the store, and is decided here if that fails."""

from __future__ import annotations

import asyncio

from dragoman_server.routing.retry_budget import RetryBudget
from dragoman_server.routing.shared_retries import RetryCounts, SharedRetryBudget
from support.manual_clock import ManualClock


def budget(share: float = 0.2, least: int = 1) -> tuple[SharedRetryBudget, list[bool]]:
    changes: list[bool] = []
    return SharedRetryBudget(RetryBudget(share, least, ManualClock()), changes.append), changes


async def asked(shared: SharedRetryBudget, *owners: bytes) -> list[asyncio.Task[bool]]:
    """Retries that wait for the store."""
    tasks = [asyncio.create_task(shared.spend(owner)) for owner in owners]
    await asyncio.sleep(0)
    return tasks


async def test_the_store_grants_some_of_those_that_wait() -> None:
    shared, changes = budget()
    for _ in range(7):
        shared.count_request()
    assert await shared.spend(free=True)
    assert changes == []
    tasks = await asked(shared, b"", b"", b"")
    assert changes == [True] * 3
    assert shared.claim() == RetryCounts(7, 1, 3)
    (late,) = await asked(shared, b"")
    shared.grant(2)
    assert await asyncio.gather(*tasks) == [True, True, False]
    assert shared.claim() == RetryCounts(0, 0, 1)
    shared.grant(1)
    assert await late


async def test_each_client_has_the_share_of_its_own_requests_in_this_process() -> None:
    shared, _ = budget()
    shared.count_request(b"a")
    tasks = await asked(shared, b"a", b"a", b"b")
    shared.claim()
    shared.grant(0)
    assert await asyncio.gather(*tasks) == [True, False, True]
    assert shared.claim() == RetryCounts(0, 2, 0)


async def test_a_store_that_fails_leaves_the_decision_here() -> None:
    shared, _ = budget(least=2)
    shared.count_request()
    tasks = await asked(shared, b"", b"")
    shared.claim()
    tasks += await asked(shared, b"")
    shared.fail()
    assert await asyncio.gather(*tasks) == [True, True, False]
    assert not await shared.spend()
    assert shared.claim() == RetryCounts(1, 2, 0), "it is reported when the store answers"
    shared.grant(0)
    (again,) = await asked(shared, b"")
    again.cancel()
    shared.claim()
    shared.grant(1)


async def test_new_limits() -> None:
    shared, _ = budget(least=0)
    shared.configure(0.0, 5)
    shared.fail()
    assert await shared.spend()
