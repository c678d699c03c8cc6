"""The requests of other hosts, for consoles."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman_server.proxy.hosts import feed as module
from dragoman_server.proxy.hosts.feed import KEPT, HostFeed
from dragoman_server.proxy.hosts.interface import LEASE, Batch, StoredReceipt
from support.memory_hosts import MemoryHostStore
from support.waiting import until


def state(gateway: str, open_requests: int = 0) -> bytes:
    return json.dumps({"gateway": gateway, "open_requests": open_requests}).encode()


def row(number: int, process: str, word: str = "completed") -> dict[str, Any]:
    return {"id": f"req_{number}", "process": process, "state": word}


def rows(*numbers: int, process: str) -> list[bytes]:
    return [json.dumps(row(number, process)).encode() for number in numbers]


def ids(feed: HostFeed) -> list[str]:
    return [each["id"] for each in feed.rows()]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryHostStore:
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    return MemoryHostStore()


async def test_rows_of_other_gateways_are_read_while_a_console_is_open(store: MemoryHostStore) -> None:
    feed = HostFeed(store, "gw-1")
    await store.write(Batch("own", state("gw-1"), rows=rows(1, process="own")))
    await store.write(Batch("b", state("gw-2", 3), rows=rows(2, 3, process="b"), open_rows=b""))
    await store.write(Batch("dead", state("gw-1"), rows=rows(4, process="dead")))
    store.states["dead"] = store.clock.now - LEASE - 1, state("gw-1")
    assert store.calls == 3
    await feed.follow()
    # A worker of this gateway that was lost does not answer for itself.
    assert ids(feed) == ["req_4", "req_3", "req_2"]
    assert feed.open_requests == 3
    await store.write(Batch("b", state("gw-2"), rows=rows(5, process="b")))
    await until(lambda: ids(feed)[0] == "req_5")
    await feed.close()
    calls = store.calls
    assert feed._task is None
    await feed.follow()
    assert store.calls > calls
    await feed.close()


async def test_open_requests_come_first_and_end_with_their_row(store: MemoryHostStore) -> None:
    feed = HostFeed(store, "gw-1")
    shown = json.dumps([row(2, "b", "open")]).encode()
    await store.write(Batch("b", state("gw-2"), rows=rows(1, process="b"), open_rows=shown))
    await feed.follow()
    assert [(each["id"], each["state"]) for each in feed.rows()] == [("req_2", "open"), ("req_1", "completed")]
    await store.write(Batch("b", state("gw-2"), rows=rows(2, process="b")))
    await until(lambda: [each["state"] for each in feed.rows()] == ["completed", "completed"])
    # A host that is lost has no open requests.
    await store.write(Batch("b", state("gw-2"), open_rows=json.dumps([row(3, "b", "open")]).encode()))
    await until(lambda: ids(feed)[0] == "req_3")
    store.clock.now += LEASE + 1
    await until(lambda: ids(feed)[0] == "req_2")
    await feed.close()


async def test_the_number_of_rows_is_bounded(store: MemoryHostStore) -> None:
    feed = HostFeed(store, "gw-1")
    await store.write(Batch("b", state("gw-2"), rows=rows(0, process="b")))
    await feed.follow()
    for first in range(0, KEPT + 500, 500):
        await store.write(Batch("b", state("gw-2"), rows=rows(*range(first, first + 500), process="b")))
    await until(lambda: ids(feed)[:1] == [f"req_{KEPT + 499}"])
    assert len(ids(feed)) == KEPT
    await feed.close()


async def test_a_store_that_fails_hides_what_is_open(store: MemoryHostStore) -> None:
    feed = HostFeed(store, "gw-1")
    shown = json.dumps([row(2, "b", "open")]).encode()
    await store.write(Batch("b", state("gw-2", 1), rows=rows(1, process="b"), open_rows=shown))
    await feed.follow()
    store.fails = "away"
    await until(lambda: ids(feed) == ["req_1"])
    assert feed.open_requests == 0
    store.fails = ""
    await until(lambda: ids(feed) == ["req_2", "req_1"])
    await feed.close()


async def test_reading_ends_when_no_console_is_open(store: MemoryHostStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 0.02)
    feed = HostFeed(store, "gw-1")
    await feed.follow()
    await until(lambda: feed._task is not None and feed._task.done())
    assert store.watched_until > 0


async def test_another_host_is_asked_for_an_open_request(
    store: MemoryHostStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ASK_INTERVAL", 0.01)
    feed = HostFeed(store, "gw-1")
    assert not await feed.ask("req_2")
    await store.write(Batch("b", state("gw-2"), open_rows=json.dumps([row(2, "b", "open")]).encode()))
    await feed.follow()
    monkeypatch.setattr(module, "ASK_SECONDS", 0.03)
    assert not await feed.ask("req_2"), "it does not answer"
    assert store.asked["b"] == ["req_2"]
    await store.write(Batch("b", state("gw-2"), [StoredReceipt("req_2", "", b"{}", b"{}")]))
    monkeypatch.setattr(module, "ASK_SECONDS", 60.0)
    assert await feed.ask("req_2")
    await feed.close()
