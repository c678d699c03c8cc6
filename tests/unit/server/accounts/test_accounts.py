"""The accounts of a gateway with a store that fails as the test wants."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dragoman import Dialect, DragomanError, Usage
from dragoman_server.accounts import accounts as module
from dragoman_server.accounts.accounts import Accounts
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.store.interface import Lease
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.observability.metric_families import (
    SETTLEMENTS_DROPPED,
    STORE_ERRORS,
    STORE_UNCHECKED,
    STORE_UP,
    Totals,
)
from support.fragile_store import REDIS, Fragile, opened
from support.named_keys import made
from support.redis_server import RedisServer
from support.stores import Clock
from support.waiting import turns, until

CHAT = Dialect.CHAT


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.02)
    monkeypatch.setattr(module, "RENEW", 0.05)


async def spent(store: Fragile, record: KeyRecord) -> int:
    return sum(each.amount for each in await store.spent(record.id))


async def test_a_store_that_is_away_is_noticed_and_found_again(caplog: pytest.LogCaptureFixture) -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000)
    async with opened(store, record) as (accounts, totals):
        assert accounts.healthy
        store.away = True
        await until(lambda: not accounts.healthy)
        assert totals.read(STORE_UP) == [0]
        store.away = False
        await until(lambda: accounts.healthy)
        assert totals.read(STORE_UP) == [1]
        assert sum(totals.read(STORE_ERRORS, operation)[0] for operation in ("ping", "renew", "keys")) == 1
    texts = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(texts) == 2
    assert "does not answer, requests are admitted without limits: away" in texts[0]
    assert "answers again" in texts[1]


async def test_requests_during_an_outage_are_counted_after_it() -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000)
    async with opened(store, record) as (accounts, totals):
        before = await accounts.admit(record, "1", CHAT, "m", 10)
        store.away = True
        during = await accounts.admit(record, "2", CHAT, "m", 10)
        accounts.settle(before, Usage(input_total=20, output_total=30), "m", sent=True)
        accounts.settle(during, Usage(input_total=4, output_total=5), "m", sent=True)
        assert totals.read(STORE_UNCHECKED, "admitted") == [1]
        store.away = False
        await until(lambda: accounts.healthy)
        await accounts._settlements.flush(5)
        assert await spent(store, record) == 59


async def test_a_claim_whose_answer_is_late_is_taken_back() -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000, concurrent_requests=1)
    async with opened(store, record) as (accounts, _):
        store.late = True
        claim = await accounts.admit(record, "1", CHAT, "m", 10)
        assert not claim.granted
        store.late = False
        await until(lambda: accounts.healthy)
        accounts.settle(claim, Usage(input_total=1, output_total=2), "m", sent=True)
        await accounts._settlements.flush(5)
        assert await spent(store, record) == 3
        assert (await accounts.admit(record, "2", CHAT, "m", 10)).granted


async def test_a_client_that_leaves_while_it_is_checked_takes_nothing() -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000, concurrent_requests=1)
    async with opened(store, record) as (accounts, _):
        store.gate = asyncio.Event()
        task = asyncio.create_task(accounts.admit(record, "1", CHAT, "m", 10))
        await asyncio.sleep(0.01)
        assert await spent(store, record) == 10
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.gate = None
        await accounts._settlements.flush(5)
        assert await spent(store, record) == 0
        assert (await accounts.admit(record, "2", CHAT, "m", 10)).granted


async def test_a_closed_policy_rejects_during_an_outage() -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000)
    async with opened(store, record, options=replace(REDIS, on_failure="closed")) as (accounts, totals):
        store.away = True
        for _ in range(2):
            with pytest.raises(DragomanError) as caught:
                await accounts.admit(record, "1", CHAT, "m", 10)
            assert caught.value.failure.status == 503
            assert caught.value.failure.headers == {"retry-after": "1"}
        assert totals.read(STORE_UNCHECKED, "rejected") == [2]


async def test_open_requests_are_renewed_until_they_end() -> None:
    store, (_, record) = Fragile(), made(concurrent_requests=5)
    async with opened(store, record) as (accounts, _):
        first = await accounts.admit(record, "1", CHAT, "m", 10)
        await accounts.admit(record, "2", CHAT, "m", 10)
        await until(lambda: {"1", "2"} <= set(store.renewed))
        accounts.settle(first, None, "m", sent=True)
        store.renewed.clear()
        await until(lambda: len(store.renewed) >= 2)
        assert set(store.renewed) == {"2"}


@pytest.mark.parametrize(
    ("usage", "sent", "counted"),
    [
        (Usage(input_total=7, output_total=8), True, 15),
        (Usage(output_total=8), True, 18),
        (Usage(input_total=7), True, 7),
        (None, True, 10),
        (None, False, 0),
    ],
)
async def test_the_estimate_stays_where_nothing_better_is_known(usage: Usage | None, sent: bool, counted: int) -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000)
    async with opened(store, record) as (accounts, _):
        accounts.settle(await accounts.admit(record, "1", CHAT, "m", 10), usage, "m", sent=sent)
        await accounts._settlements.flush(5)
        assert await spent(store, record) == counted


async def test_another_store_needs_a_restart() -> None:
    store = Fragile()
    async with opened(store) as (accounts, _):
        assert accounts.configure((), replace(REDIS, on_failure="closed", timeout=1.0))
        assert not accounts.configure((), replace(REDIS, url="redis://127.0.0.1:2/0"))


async def test_what_could_not_be_counted_is_reported_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    store, (_, record) = Fragile(), made(daily_tokens=1000)
    async with opened(store, record) as (accounts, totals):
        claim = await accounts.admit(record, "1", CHAT, "m", 10)
        store.away = True
        await until(lambda: not accounts.healthy)
        accounts.settle(claim, None, "m", sent=True)
    assert "the end of 1 requests" in caplog.text
    assert totals.read(SETTLEMENTS_DROPPED) == [0]


async def test_a_request_belongs_to_the_day_and_the_month_in_which_it_is_admitted() -> None:
    _, record = made(daily_tokens=1000, monthly_tokens=1000)
    begun = datetime(2026, 11, 30, 23, 59, 59, 500_000, tzinfo=UTC).timestamp()
    moments = {
        begun: ("2026-11-30", "2026-11"),
        begun + 1: ("2026-12-01", "2026-12"),
        begun - 1: ("2026-11-30", "2026-11"),
    }
    clock = begun
    accounts = Accounts((record,), StoreOptions(), totals=Totals(), now=lambda: clock)
    for clock, periods in moments.items():
        claim = await accounts.admit(record, str(clock), CHAT, "m", 10)
        assert claim.periods == periods


async def test_leases_in_memory_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    store, (_, record) = MemoryAccountStore(), made(concurrent_requests=1)
    renewed: list[Lease] = []

    async def renew(leases: Iterable[Lease]) -> None:
        renewed.extend(leases)

    monkeypatch.setattr(store, "renew", renew)
    accounts = Accounts((record,), StoreOptions(), totals=Totals(), store=store)
    await accounts.open()
    try:
        await accounts.admit(record, "1", CHAT, "m", 10)
        await until(lambda: renewed == [Lease(record.id, "1")])
    finally:
        await accounts.close()


@pytest.mark.parametrize("days", [-1, 1])
async def test_open_requests_are_renewed_when_the_clock_jumps(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    monkeypatch.setattr(module, "RENEW", 1e6)
    clock = Clock()
    store, (_, record) = Fragile(), made(concurrent_requests=5)
    accounts = Accounts((record,), REDIS, totals=Totals(), store=store, now=lambda: time.monotonic() + clock.now)
    await accounts.open()
    try:
        await accounts.admit(record, "1", CHAT, "m", 10)
        await turns()
        for _ in range(2):
            assert not store.renewed
            clock.now += days * 86_400
            await until(lambda: store.renewed == ["1"])
            store.renewed.clear()
    finally:
        await accounts.close()


@pytest.mark.parametrize("days", [-40, -1, 1, 40])
async def test_a_gateway_whose_clock_is_wrong_leaves_the_budgets_of_all(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.setattr(module, "RENEW", 20.0)
    options = StoreOptions("redis", url=redis.url, prefix=f"wrong{days}", timeout=5.0, keys=False)
    _, record = made(daily_tokens=100, monthly_tokens=100)
    right, wrong, other = (
        Accounts((record,), options, totals=Totals(), now=lambda ahead=ahead: time.time() + ahead * 86_400)  # type: ignore[misc]
        for ahead in (0, days, 0)
    )
    for each in (right, wrong, other):
        await each.open()
    try:
        first = await right.admit(record, "1", CHAT, "m", 60)
        for accounts in (wrong, right, other):
            with pytest.raises(DragomanError) as caught:
                await accounts.admit(record, "2", CHAT, "m", 60)
            # Its own clock counts no more in the time until the next day.
            assert 0 < int(caught.value.failure.headers["retry-after"]) <= 31 * 86_400
        second = await wrong.admit(record, "3", CHAT, "m", 20)
        wrong.settle(second, Usage(input_total=30, output_total=0), "m", sent=True)
        right.settle(first, Usage(input_total=60, output_total=5), "m", sent=True)
        for each in (right, wrong):
            await each._settlements.flush(5)
        assert {each.amount for each in await other._store.spent(record.id)} == {95}
    finally:
        for each in (right, wrong, other):
            await each.close()
