"""The guard of a store that stops answering, and answers again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman import DragomanError
from dragoman_server.accounts.store.interface import StoreError
from dragoman_server.accounts.store_guard import StoreGuard
from dragoman_server.observability.metric_families import STORE_ERRORS, STORE_UNCHECKED, STORE_UP, Totals
from support.fragile_store import REDIS, Fragile


async def test_a_store_that_fails_is_not_called_until_it_answers_again() -> None:
    store, totals = Fragile(), Totals()
    guard, calls = StoreGuard(store, REDIS, totals), []

    async def call() -> str:
        calls.append("call")
        await store.ping()
        return "answer"

    await guard.open()
    assert await guard.call("ping", call) == "answer"
    store.away = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await guard.call("ping", call)
    assert (len(calls), guard.healthy, totals.read(STORE_UP)) == (2, False, [0])
    assert totals.read(STORE_ERRORS, "ping") == [1]

    async def refuse() -> None:
        raise StoreError("it does not count")

    with pytest.raises(StoreError):
        await guard.retry(store.ping)
    store.away = False
    with pytest.raises(StoreError):
        await guard.retry(refuse)
    assert not guard.healthy
    await guard.retry(store.ping)
    assert (await guard.call("ping", call), totals.read(STORE_UP)) == ("answer", [1])


def test_requests_that_cannot_be_checked_follow_the_policy_of_the_last_options() -> None:
    totals = Totals()
    guard = StoreGuard(Fragile(), replace(REDIS, on_failure="open"), totals)
    guard.check_policy()
    guard.options = replace(REDIS, on_failure="closed")
    with pytest.raises(DragomanError) as caught:
        guard.check_policy()
    assert caught.value.failure.status == 503
    assert totals.read(STORE_UNCHECKED, "admitted") == totals.read(STORE_UNCHECKED, "rejected") == [1]
