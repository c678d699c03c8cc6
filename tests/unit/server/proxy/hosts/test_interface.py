"""The stores of hosts: one suite for all."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.proxy.hosts.interface import LIST_MAX, Batch, FoundReceipt, HostStore, StoredReceipt, Wanted
from dragoman_server.proxy.hosts.redis import RedisHostStore
from dragoman_server.proxy.hosts.sqlite import SqliteHostStore
from support.memory_hosts import MemoryHostStore
from support.redis_server import redis_server
from support.waiting import until_true

KINDS = ("memory", "sqlite", "redis")
_PREFIXES = itertools.count()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@asynccontextmanager
async def opened(request: pytest.FixtureRequest, kind: str, folder: Path, **options: Any) -> AsyncIterator[HostStore]:
    store: HostStore
    options = {"kept": 600.0, **options}
    if kind == "memory":
        store = MemoryHostStore(**options)
    elif kind == "redis":
        url = request.getfixturevalue("url")
        store = RedisHostStore(url, prefix=f"test-{next(_PREFIXES)}", timeout=30.0, **options)
    else:
        store = SqliteHostStore(str(folder / f"hosts-{next(_PREFIXES)}.db"), timeout=30.0, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HostStore]:
    async with opened(request, request.param, tmp_path) as made:
        yield made


def receipt(number: int, owner: str = "alice", view: bytes = b'{"v":1}') -> StoredReceipt:
    return StoredReceipt(f"req_{number}", owner, b'{"number":%d}' % number, view)


async def test_a_receipt_is_found_by_others(store: HostStore) -> None:
    assert await store.receipt("req_1") is None
    assert await store.write(Batch("a", b"{}", [receipt(1), receipt(2, "bob")])) == Wanted(False, [])
    assert await store.receipt("req_1") == FoundReceipt("alice", b'{"v":1}')
    assert await store.receipts("alice", 9) == [b'{"number":1}']
    assert await store.receipts("nobody", 9) == []
    # Again, as its request has ended.
    await store.write(Batch("a", b"{}", [receipt(1, view=b"later")]))
    assert await store.receipt("req_1") == FoundReceipt("alice", b"later")
    assert await store.receipts("alice", 9) == [b'{"number":1}']


async def test_the_newest_are_listed(store: HostStore) -> None:
    for first in range(0, LIST_MAX + 20, 20):
        await store.write(Batch("a", b"{}", [receipt(number) for number in range(first, first + 20)]))
    assert len(await store.receipts("alice", 10 * LIST_MAX)) == LIST_MAX
    last = LIST_MAX + 19
    assert await store.receipts("alice", 2) == [b'{"number":%d}' % last, b'{"number":%d}' % (last - 1)]


@pytest.mark.parametrize("kind", KINDS)
async def test_receipts_have_bounds(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    async with opened(request, kind, tmp_path, most=3) as store:
        for number in range(5):
            await store.write(Batch("a", b"{}", [receipt(number)]))
        found = [await store.receipt(f"req_{number}") is not None for number in range(5)]
        assert found == [False, False, True, True, True]
        assert len(await store.receipts("alice", 9)) == 3
    async with opened(request, kind, tmp_path, most_bytes=2500) as store:
        for number in range(5):
            await store.write(Batch("a", b"{}", [receipt(number, view=b"x" * 1000)]))
        # The same receipt counts once.
        await store.write(Batch("a", b"{}", [receipt(4, view=b"y" * 1000)]))
        found = [await store.receipt(f"req_{number}") is not None for number in range(5)]
        assert found == [False, False, False, True, True]


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_receipts_are_kept_for_their_time(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    async with opened(request, kind, tmp_path, kept=0.01) as store:
        await store.write(Batch("a", b"{}", [receipt(1)]))

        async def gone() -> bool:
            return await store.receipt("req_1") is None and await store.receipts("alice", 9) == []

        await until_true(gone)
        await store.write(Batch("a", b"{}", [receipt(2)]))


async def test_rows_are_read_on_from_a_position(store: HostStore) -> None:
    await store.write(Batch("a", b"{}", rows=[b"1", b"2", b"3"]))
    nothing = await store.read()
    assert (nothing.position, nothing.rows) == ("", [])
    last = await store.read("", 2)
    assert last.rows == [b"2", b"3"]
    assert (await store.read(last.position, 9)).rows == []
    await store.write(Batch("b", b"{}", rows=[b"4", b"5"]))
    some = await store.read(last.position, 1)
    assert some.rows == [b"4"]
    assert (await store.read(some.position, 9)).rows == [b"5"]


async def test_processes_show_their_state_until_they_leave(store: HostStore) -> None:
    await store.write(Batch("a", b'{"n":1}'))
    await store.write(Batch("b", b'{"n":2}'))
    await store.write(Batch("a", b'{"n":3}'))
    found = {each.process: each for each in (await store.read()).processes}
    assert {name: each.state for name, each in found.items()} == {"a": b'{"n":3}', "b": b'{"n":2}'}
    assert all(0 <= each.age < 600 for each in found.values())
    await store.leave("a")
    assert [each.process for each in (await store.read()).processes] == ["b"]


async def test_open_requests_are_written_while_a_console_is_open(store: HostStore) -> None:
    assert not (await store.write(Batch("a", b"{}", open_rows=b"[1]"))).watched
    assert [each.open_rows for each in (await store.read()).processes] == [b""]
    assert [each.open_rows for each in (await store.read(watch=True)).processes] == [b"[1]"]
    assert (await store.write(Batch("a", b"{}"))).watched
    assert (await store.write(Batch("b", b"{}", open_rows=b"[]"))).watched
    found = {each.process: each.open_rows for each in (await store.read(watch=True)).processes}
    assert found == {"a": b"[1]", "b": b"[]"}


async def test_a_process_is_asked_for_a_receipt(store: HostStore) -> None:
    await store.write(Batch("a", b"{}"))
    await store.ask("a", "req_1")
    assert (await store.write(Batch("b", b"{}"))).ids == []
    assert (await store.write(Batch("a", b"{}"))).ids == ["req_1"]
    assert (await store.write(Batch("a", b"{}"))).ids == []


async def test_a_large_batch(store: HostStore) -> None:
    receipts = [receipt(number, f"owner-{number}", b"x" * 10_000) for number in range(64)]
    await store.write(Batch("a", b"{}", receipts, [b"r" * 500] * 64, b"[]"))
    assert await store.receipt("req_63") == FoundReceipt("owner-63", b"x" * 10_000)
    assert len((await store.read("", 100)).rows) == 64
