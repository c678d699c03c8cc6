"""The keys of a gateway: of its configuration, of its store, and by whose clock they expire."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from dragoman import Dialect, DragomanError, Usage
from dragoman_server.accounts import accounts as module
from dragoman_server.accounts.accounts import Accounts
from dragoman_server.accounts.store.create import create_key_store
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.schema import Config
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.auth import check_named
from support.fragile_store import REDIS, Fragile, opened
from support.named_keys import made
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from support.waiting import until

CHAT = Dialect.CHAT


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.02)


async def test_keys_of_the_configuration_are_known_without_the_store() -> None:
    store, (key, record) = Fragile(), made()
    store.away = True
    unknown, of_store = made("bob")
    async with opened(store, record) as (accounts, _):
        assert accounts.keys.find(key) is record
        with pytest.raises(DragomanError) as caught:
            accounts.keys.find(unknown)
        assert caught.value.failure.status == 503
        await store.put_key(of_store)
        store.away = False
        await until(lambda: accounts.healthy)
        await until(lambda: accounts.keys.known)
        assert accounts.keys.find(unknown) == of_store


async def test_keys_that_were_read_stay_valid_during_an_outage() -> None:
    store, (key, record) = Fragile(), made()
    await store.put_key(record)
    async with opened(store) as (accounts, _):
        store.away = True
        await until(lambda: not accounts.healthy)
        assert accounts.keys.find(key) == record
        assert accounts.keys.find(made()[0]) is None


async def test_a_store_without_keys_is_not_asked_for_them() -> None:
    store, (_, record) = Fragile(), made()
    await store.put_key(record)
    async with opened(store, options=replace(REDIS, keys=False)) as (accounts, _):
        assert len(accounts.keys) == 0


@pytest.mark.parametrize("days", [-40, 40])
async def test_a_key_expires_by_the_clock_of_the_store(redis: RedisServer, days: int) -> None:
    options = StoreOptions("redis", url=redis.url, prefix="expiring", timeout=5.0, keys=False)
    now = time.time()
    (key, valid), (old, expired) = made("a", expires=now + 86_400), made("b", expires=now - 86_400)
    accounts = Accounts((valid, expired), options, totals=Totals(), now=lambda: time.time() + days * 86_400)
    await accounts.open()
    try:
        assert abs(accounts.keys.now() - now) < 3600
        config = replace(Config(), keys={"a": valid, "b": expired})
        assert check_named(accounts.keys, config, {"x-api-key": key}).key is valid
        with pytest.raises(DragomanError, match="expired"):
            check_named(accounts.keys, config, {"x-api-key": old})
    finally:
        await accounts.close()
    in_memory = Accounts((valid, expired), StoreOptions(), totals=Totals(), now=lambda: now + days * 86_400)
    assert in_memory.keys.now() == now + days * 86_400


@pytest.mark.parametrize("shared", [True, False])
async def test_keys_in_postgresql_are_read_at_once_and_limits_count_elsewhere(
    postgres: PostgresServer, redis: RedisServer, caplog: pytest.LogCaptureFixture, shared: bool
) -> None:
    (key, record), (_, limited) = made(), made("bob", daily_tokens=1000)
    common: dict[str, Any] = {"url": postgres.url, "timeout": 5.0, "refresh": 3600.0}
    options = StoreOptions("postgresql", limits_url=redis.url if shared else "", prefix=f"accounts-{shared}", **common)
    accounts = Accounts((), options, totals=Totals())
    await accounts.open()
    assert (accounts.keys.known, accounts.keys.healthy) == (True, True)
    store = create_key_store(options)
    assert store is not None
    await store.open()
    await store.put_key(record)
    await until(lambda: accounts.keys.find(key) == record)
    await store.put_key(limited)
    await until(lambda: len(accounts.keys) == 2)
    claim = await accounts.admit(limited, "lease", CHAT, "m", 10)
    accounts.settle(claim, Usage(input_total=10, output_total=5), "m", sent=True)
    assert ("the limits of key bob count for each process alone" in caplog.text) is not shared
    await store.remove_key(record.id)
    await until(lambda: accounts.keys.find(key) is None)
    await accounts.close()
    await store.close()


async def test_an_outage_of_the_keys_leaves_the_limits_as_they_are(redis: RedisServer) -> None:
    options = StoreOptions("postgresql", url="postgresql://127.0.0.1:1/d", limits_url=redis.url, timeout=5.0)
    totals = Totals()
    (key, record), (unknown, _) = made(requests_per_minute=1), made("bob")
    accounts = Accounts((record,), options, totals=totals)
    await accounts.open()
    assert (accounts.healthy, accounts.keys.healthy, accounts.keys.known) == (True, False, False)
    assert accounts.keys.find(key) == record
    with pytest.raises(DragomanError) as caught:
        accounts.keys.find(unknown)
    assert caught.value.failure.status == 503
    await accounts.admit(record, "1", CHAT, "m", 10)
    with pytest.raises(DragomanError) as caught:
        await accounts.admit(record, "2", CHAT, "m", 10)
    assert caught.value.failure.status == 429
    await accounts.close()
