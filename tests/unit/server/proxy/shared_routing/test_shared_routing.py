"""The part of one process: few calls however many wait, its part of the bounds without a store, and issuers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import STORE_ERRORS, Totals
from dragoman_server.proxy.shared_routing.shared_routing import ALONE, SharedRouting
from dragoman_server.routing.response_issuers import Issuer
from dragoman_server.routing.routing_state import RoutingState
from support.routing_stores import MemoryRoutingStore
from support.stores import Clock
from support.waiting import until

UP = Provider("up", Dialect.CHAT, "http://user:word@up/v1", concurrent=6, queue=50)


class Process:
    """One process: its state, and its part in what is shared."""

    def __init__(self, store: MemoryRoutingStore, clock: Clock) -> None:
        self.providers = {"up": UP}
        self.totals = Totals()
        self.routing = RoutingState(Config(providers=self.providers), self.totals, clock=clock)
        self.shared = SharedRouting(self.routing, store, lambda: self.providers, self.totals, clock=clock)
        self.inside = self.dropped = 0

    def arrive(self, number: int = 1) -> None:
        """So many requests arrive."""
        slots = self.routing.of(UP).slots
        for _ in range(number):
            if slots.take():
                self.inside += 1
            elif not slots.wait(lambda: self._entered(), (), self._left):
                self.dropped += 1

    def _entered(self) -> None:
        self.inside += 1

    def _left(self) -> None:
        self.dropped += 1

    def free(self, number: int = 1) -> None:
        for _ in range(number):
            self.inside -= 1
            self.routing.of(UP).slots.free()


@asynccontextmanager
async def running(number: int = 2) -> AsyncIterator[tuple[MemoryRoutingStore, Clock, list[Process]]]:
    """Processes that share a store."""
    clock = Clock()
    store = MemoryRoutingStore(clock)
    processes = [Process(store, clock) for _ in range(number)]
    for each in processes:
        each.shared.start()
        each.shared.start()
        await until(lambda at=store.calls: store.calls > at)  # type: ignore[misc]
    try:
        yield store, clock, processes
    finally:
        for each in processes:
            await each.shared.close()


async def test_the_requests_of_a_turn_are_one_call() -> None:
    async with running(1) as (store, _, (one,)):
        one.arrive()
        one.free() if one.inside else None
        await until(lambda: one.inside > 0)
        before = store.calls
        one.arrive(40)
        await until(lambda: one.inside == 6)
        assert store.calls - before <= 2
        assert one.dropped == 0
        one.arrive(30)
        await until(lambda: one.dropped == 71 - 6 - 50)


async def test_places_go_to_the_process_that_waits() -> None:
    async with running() as (_, _, (one, two)):
        one.arrive(6)
        await until(lambda: one.inside == 6)
        two.arrive(2)
        for number in (1, 2):
            one.free()
            await until(lambda at=number: two.inside == at)  # type: ignore[misc]
        assert (one.inside, two.inside) == (4, 2)


async def test_without_the_store_each_process_has_its_part(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as (store, clock, (one, two)):
        two.arrive(2)
        await until(lambda: two.inside == 2)
        one.arrive(1)
        await until(lambda: one.inside == 1)
        two.arrive(1)
        await until(lambda: two.inside == 3)
        store.fails = True
        for each in (one, two):
            each.arrive(9)
            await until(lambda of=each: of.shared.failing)  # type: ignore[misc]
        assert (one.inside, two.inside) == (3, 3)
        errors = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
        assert len(errors) == 2, "one for each process"
        assert "uses its part of them, 1/2: it fails" in errors[0]
        assert one.totals.series(STORE_ERRORS)[("routing",)][0] >= 1
        store.fails = False
        await until(lambda: not (one.shared.failing or two.shared.failing))
        two.free(2)
        await until(lambda: two.inside == 3)
        assert one.inside == 3, "until all have reported"
        clock.now += ALONE
        one.free(3)
        two.free(3)
        await until(lambda: one.inside + two.inside == 6)
        assert "shares the bounds of providers again" in caplog.text


async def test_a_defect_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with running(1) as (store, _, (one,)):

        async def broken(*_: object) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(store, "exchange", broken)
        one.arrive(6)
        await until(lambda: one.inside == 6)
        assert "failed by a defect" in caplog.text


async def test_retries_are_granted_by_the_store() -> None:
    async with running() as (store, _, (one, two)):
        budgets = [each.routing.budget for each in (one, two)]
        granted = await asyncio.gather(*(budgets[at % 2].spend() for at in range(8)))
        assert sum(granted) == 3
        assert await budgets[0].spend(free=True)
        store.fails = True
        found = [await budgets[1].spend() for _ in range(4)]
        assert sum(granted[1::2]) + sum(found) == 3, "those of this process"


async def test_issuers_are_known_elsewhere_without_the_url() -> None:
    async with running() as (store, _, (one, two)):
        issuer = Issuer("up", UP.base_url, "k1")
        await one.shared.keep_issuer(b"me", b"\x01", issuer)
        assert await two.shared.find_issuer(b"me", b"\x01") == issuer
        assert await two.shared.find_issuer(b"you", b"\x01") is None
        assert "word" not in str(store._issuers)
        two.providers = {"up": replace(UP, base_url="http://elsewhere/v1")}
        assert await two.shared.find_issuer(b"me", b"\x01") is None
        two.providers = {}
        assert await two.shared.find_issuer(b"me", b"\x01") is None
        store.fails = True
        await one.shared.keep_issuer(b"me", b"\x02", issuer)
        assert await one.shared.find_issuer(b"me", b"\x01") is None
        await until(lambda: one.shared.failing)
