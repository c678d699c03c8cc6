"""Pauses reach other gateways through a store, and a store that is away stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from dragoman import Dialect
from dragoman_server.accounts.accounts import Accounts
from dragoman_server.accounts.store.interface import StoreError
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.shared_pauses import PENDING_MAX, SharedPauses
from dragoman_server.routing.backoff import RetryHints
from dragoman_server.routing.outcomes import outcome_of_status
from dragoman_server.routing.plan import Candidate
from dragoman_server.routing.routing_state import RoutingState
from support.manual_clock import ManualClock
from support.waiting import until

UP = Provider("up", Dialect.CHAT, "http://up/v1")
CANDIDATE = Candidate(UP, "m")


class Open(MemoryAccountStore):
    """A store in place of open accounts."""

    is_open = True


class Away:
    """A store that does not answer, and counts who tries."""

    is_open = True
    calls = 0

    async def cool(self, name: str, seconds: float) -> None:
        raise StoreError("away")

    async def cooldowns(self) -> Mapping[str, float]:
        self.calls += 1
        raise StoreError("away")


class Side:
    """One gateway's part: its state, and the exchange with a store."""

    def __init__(self, store: Any, clock: ManualClock) -> None:
        self.routing = RoutingState(Config(providers={"up": UP}), Totals(), clock=clock)
        self.pauses = SharedPauses(self.routing, lambda: cast("Accounts | None", store), clock=clock)
        self.routing.share = self.pauses.add

    def fail(self, status: int, after: float | None, times: int = 1) -> None:
        for _ in range(times):
            assert self.routing.of(UP).slots.take()
            self.routing.begin(CANDIDATE)
            self.routing.end(CANDIDATE, outcome_of_status(status, RetryHints(after)))
            self.routing.free(CANDIDATE)


@pytest.mark.parametrize(("status", "after", "times"), [(429, 30.0, 1), (500, None, 5)], ids=["key", "provider"])
async def test_a_pause_reaches_the_other_side_and_ends_there(status: int, after: float | None, times: int) -> None:
    clock = ManualClock()
    store = Open(clock)
    one, two = Side(store, clock), Side(store, clock)
    one.fail(status, after, times)
    clock.advance(4)
    await one.pauses.exchange()
    await two.pauses.exchange()
    left = one.routing.remaining(CANDIDATE)
    assert left > 0
    assert two.routing.remaining(CANDIDATE) == pytest.approx(left, abs=0.01)
    clock.advance(left)
    await two.pauses.exchange()
    assert two.routing.remaining(CANDIDATE) == 0


async def test_a_pause_that_is_nearly_over_is_not_adopted() -> None:
    """Else a breaker that has just closed would be opened again by what is left of its own pause."""
    clock = ManualClock()
    store = Open(clock)
    one, two = Side(store, clock), Side(store, clock)
    one.fail(500, None, 5)
    await one.pauses.exchange()
    clock.advance(14.5)
    await two.pauses.exchange()
    assert two.routing.remaining(CANDIDATE) == 0


async def test_a_store_that_is_away_is_asked_again() -> None:
    away, clock = Away(), ManualClock()
    side = Side(away, clock)
    side.pauses.start()
    side.fail(429, 30.0)
    assert side.routing.remaining(CANDIDATE) == 30
    await asyncio.sleep(0)
    with pytest.raises(StoreError):
        await side.pauses.exchange()
    await side.pauses.close()
    assert side.routing.share is None


async def test_without_accounts_nothing_is_exchanged() -> None:
    side = Side(None, ManualClock())
    await side.pauses.exchange()


async def test_accounts_that_are_not_open_yet_are_left_alone() -> None:
    away = Away()
    away.is_open = False
    await Side(away, ManualClock()).pauses.exchange()
    assert not away.calls


async def test_the_task_sends_a_pause_at_once() -> None:
    clock = ManualClock()
    store = Open(clock)
    side = Side(store, clock)
    side.pauses.start()
    side.pauses.start()
    await asyncio.sleep(0)
    side.fail(429, 30.0)
    await until(lambda: store._cooldowns)
    await side.pauses.close()


async def test_pauses_that_wait_to_be_sent_are_limited() -> None:
    store, clock = Open(ManualClock()), ManualClock()
    side = Side(store, clock)
    for number in range(PENDING_MAX + 50):
        side.pauses.add(f"provider:{number}", 30)
    await side.pauses.exchange()
    assert len(await store.cooldowns()) == PENDING_MAX
