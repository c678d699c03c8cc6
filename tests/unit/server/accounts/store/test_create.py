"""The store that a configuration names."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.store.create import create_store
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from dragoman_server.accounts.store.sqlite import SqliteAccountStore


@pytest.mark.parametrize(
    ("kind", "expected"), [("memory", MemoryAccountStore), ("sqlite", SqliteAccountStore), ("redis", RedisAccountStore)]
)
def test_each_kind_has_its_store(kind: str, expected: type) -> None:
    assert type(create_store(StoreOptions(kind, url="redis://127.0.0.1"))) is expected
