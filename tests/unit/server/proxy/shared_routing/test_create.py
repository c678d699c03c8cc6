"""The store of a configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.proxy.shared_routing.create import create_routing_store
from dragoman_server.proxy.shared_routing.sqlite import SqliteRoutingStore
from support.redis_server import redis_server
from support.routing_stores import NO_RETRIES


@pytest.mark.parametrize("options", [StoreOptions(), StoreOptions("sqlite", path=":memory:")])
def test_one_process_shares_nothing(options: StoreOptions) -> None:
    assert create_routing_store(options) is None


async def test_a_file_beside_that_of_limits(tmp_path: Path) -> None:
    store = create_routing_store(StoreOptions("sqlite", path=str(tmp_path / "limits.db")))
    assert isinstance(store, SqliteRoutingStore)
    await store.open()
    await store.close()
    assert os.listdir(tmp_path) == ["limits.db-routing"]


async def test_gateways_with_the_same_prefix_share_a_redis() -> None:
    with redis_server() as server:
        found: list[int] = []
        for prefix in ("one", "one", "two"):
            store = create_routing_store(StoreOptions("redis", url=server.url, prefix=prefix, timeout=5.0))
            assert store is not None
            await store.open()
            found.append((await store.exchange(str(len(found)), [], NO_RETRIES)).processes)
            await store.close()
        assert found == [1, 2, 1]
