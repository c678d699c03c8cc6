"""Shared routing in a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman_server.proxy.shared_routing.interface import StoreError
from dragoman_server.proxy.shared_routing.sqlite import MIGRATIONS, SqliteRoutingStore
from dragoman_server.routing.shared_slots import Grant, PlaceClaim
from support.routing_stores import NO_RETRIES


async def test_processes_share_a_file_that_survives_them(tmp_path: Path) -> None:
    path = str(tmp_path / "routing.db")
    one, two = SqliteRoutingStore(path, timeout=5.0), SqliteRoutingStore(path, timeout=5.0)
    await one.open()
    await two.open()
    claim = PlaceClaim("up", 3, 0, 0, 2, False)
    assert (await one.exchange("one", [claim], NO_RETRIES)).grants == [Grant(2, 0, 1)]
    assert (await two.exchange("two", [claim], NO_RETRIES)).grants == [Grant(1, 0, 0)]
    await one.keep_issuer("aa", "01", "east")
    await one.close()
    assert await two.find_issuer("aa", "01") == "east"
    await two.close()
    with pytest.raises(StoreError, match="not open"):
        await two.exchange("two", [], NO_RETRIES)


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "routing.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    store = SqliteRoutingStore(str(path), timeout=5.0)
    with pytest.raises(
        StoreError, match=f"schema version {len(MIGRATIONS) + 1}, of a later Dragoman: run that, or name another"
    ):
        await store.open()
