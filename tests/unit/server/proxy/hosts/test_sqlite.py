"""The store of hosts in a file: its times, and several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.threads import StoreError
from dragoman_server.proxy.hosts.interface import LEASE, LOST_KEPT, WATCH, Batch, StoredReceipt
from dragoman_server.proxy.hosts.sqlite import SqliteHostStore
from support.stores import Clock


async def test_times_are_those_of_the_clock(tmp_path: Path) -> None:
    clock = Clock()
    store = SqliteHostStore(str(tmp_path / "hosts.db"), kept=60.0, timeout=30.0, clock=clock)
    await store.open()
    await store.write(Batch("a", b"{}", [StoredReceipt("req_1", "", b"{}", b"{}")], [b"row"], b"[]"))
    await store.read(watch=True)
    clock.now += LEASE + 1
    (process,) = (await store.read(watch=True)).processes
    assert (process.age, process.open_rows) == (LEASE + 1, b"")
    clock.now += WATCH + 1
    assert not (await store.write(Batch("b", b"{}"))).watched
    assert await store.receipt("req_1") is not None
    clock.now += 60
    assert await store.receipt("req_1") is None
    await store.write(Batch("b", b"{}", rows=[b"newer"]))
    assert (await store.read("", 9)).rows == [b"newer"]
    clock.now += LOST_KEPT
    await store.write(Batch("c", b"{}"))
    assert [each.process for each in (await store.read()).processes] == ["c"]
    await store.close()


async def test_two_processes_use_one_file(tmp_path: Path) -> None:
    one, two = (SqliteHostStore(str(tmp_path / "hosts.db"), kept=60.0, timeout=30.0) for _ in range(2))
    await one.open()
    await two.open()
    await one.write(Batch("a", b"{}", [StoredReceipt("req_1", "alice", b"{}", b"{}")]))
    await two.write(Batch("b", b"{}"))
    assert await two.receipts("alice", 9) == [b"{}"]
    assert {each.process for each in (await one.read()).processes} == {"a", "b"}
    await one.close()
    await two.close()
    with pytest.raises(StoreError, match="not open"):
        await one.read()
