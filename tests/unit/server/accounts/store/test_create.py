"""The store that a configuration names."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.store.create import create_key_store, create_store
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.postgres import PostgresKeyStore
from dragoman_server.accounts.store.redis import RedisAccountStore
from dragoman_server.accounts.store.sqlite import SqliteAccountStore


@pytest.mark.parametrize(
    ("kind", "expected"), [("memory", MemoryAccountStore), ("sqlite", SqliteAccountStore), ("redis", RedisAccountStore)]
)
def test_each_kind_has_its_store(kind: str, expected: type) -> None:
    assert type(create_store(StoreOptions(kind, url="redis://127.0.0.1"))) is expected


def test_postgresql_has_keys_and_another_store_has_the_limits() -> None:
    alone = StoreOptions("postgresql", url="postgresql://127.0.0.1/d")
    assert type(create_store(alone)) is MemoryAccountStore
    shared = StoreOptions("postgresql", url="postgresql://127.0.0.1/d", limits_url="redis://127.0.0.1")
    assert type(create_store(shared)) is RedisAccountStore
    assert type(create_key_store(shared)) is PostgresKeyStore
    assert create_key_store(StoreOptions("redis", url="redis://127.0.0.1")) is None
