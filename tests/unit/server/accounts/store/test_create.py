"""The store that a configuration names."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.store.create import create_store
from dragoman_server.accounts.store.memory import MemoryStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisStore
from dragoman_server.accounts.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("kind", "expected"), [("memory", MemoryStore), ("sqlite", SqliteStore), ("redis", RedisStore)]
)
def test_each_kind_has_its_store(kind: str, expected: type) -> None:
    assert type(create_store(StoreOptions(kind, url="redis://127.0.0.1"))) is expected
