"""The part of a process: its queue, failures of the store, and requests of others."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from dragoman import Dialect
from dragoman.threads import StoreError
from dragoman_server.observability.metric_families import RECEIPTS_DROPPED, STORE_ERRORS, Totals
from dragoman_server.proxy.hosts import shared_hosts
from dragoman_server.proxy.hosts.interface import StoredReceipt
from dragoman_server.proxy.hosts.shared_hosts import QUEUE_MAX, SharedHosts
from dragoman_server.receipt import Receipt
from support.memory_hosts import MemoryHostStore
from support.waiting import until


@dataclass
class Views:
    """Plain views, in place of those of a gateway."""

    receipts: dict[str, Receipt] = field(default_factory=dict)
    fails: bool = False

    def state(self) -> bytes:
        return b'{"gateway":"gw","open_requests":1}'

    def stored(self, receipt: Receipt) -> tuple[StoredReceipt, bytes]:
        if self.fails:
            raise KeyError("defect")
        view = json.dumps({"receipt": {"ended": receipt.ended}}).encode()
        name = receipt.request_id.encode()
        stored = StoredReceipt(receipt.request_id, "alice", b'{"request_id":"%b"}' % name, view)
        return stored, b'{"id": "%b"}' % name

    def open_rows(self) -> bytes:
        return b"[]"

    def find(self, request_id: str) -> Receipt | None:
        return self.receipts.get(request_id)


@dataclass
class Process:
    hosts: SharedHosts
    store: MemoryHostStore
    views: Views
    totals: Totals

    def end(self, number: int) -> None:
        self.hosts.ended(Receipt(f"req_{number}", Dialect.CHAT, 0, ended="completed"), None)


@pytest.fixture
async def process(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Process]:
    for name in ("GATHER", "STATE_INTERVAL", "WATCHED_INTERVAL", "RETRY"):
        monkeypatch.setattr(shared_hosts, name, 0.01)
    store, views, totals = MemoryHostStore(), Views(), Totals()
    hosts = SharedHosts(store, "a", "gw", totals)
    hosts.views = views
    await hosts.open()
    yield Process(hosts, store, views, totals)
    await hosts.close()


async def test_an_ended_request_is_written(process: Process) -> None:
    await until(lambda: process.store.states)
    process.end(1)
    await until(lambda: process.store.stored)
    assert await process.hosts.receipt("req_1") == {"receipt": {"ended": "completed"}}
    assert await process.hosts.receipt("req_1", "alice") is not None
    assert await process.hosts.receipt("req_1", "bob") is None
    assert await process.hosts.receipts("alice", 9) == [{"request_id": "req_1"}]
    assert [row for _, row in process.store.rows] == [b'{"id": "req_1"}']
    ((age, state),) = await process.hosts.processes()
    assert (age, state["gateway"]) == (0.0, "gw")


async def test_receipts_wait_while_the_store_is_away(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.store.fails = "away"
    await until(lambda: process.hosts.failure)
    for number in range(QUEUE_MAX + 3):
        process.end(number)
    with pytest.raises(StoreError):
        await process.hosts.receipt("req_1")
    calls = process.store.calls
    await until(lambda: process.store.calls > calls + 2)
    assert process.totals.read(RECEIPTS_DROPPED)[0] == 3
    assert process.totals.read(STORE_ERRORS, "hosts")[0] >= 2
    process.store.fails = ""
    await until(lambda: len(process.store.stored) == QUEUE_MAX)
    assert await process.hosts.receipt("req_2") is None
    assert await process.hosts.receipt("req_3") is not None
    await until(lambda: not process.hosts.failure)
    lines = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == [
        "receipts are not shared with other hosts: away",
        "receipts are shared with other hosts again",
    ]


async def test_a_defect_loses_some_receipts_only(process: Process) -> None:
    process.views.fails = True
    process.end(1)
    await until(lambda: not process.hosts._queue)
    process.views.fails = False
    process.end(2)
    await until(lambda: process.store.stored)
    assert list(process.store.stored) == ["req_2"]


async def test_the_receipt_of_an_open_request_is_written_when_it_is_asked_for(process: Process) -> None:
    process.views.receipts["req_1"] = Receipt("req_1", Dialect.CHAT, 0)
    await process.store.ask(process.hosts.process, "req_1")
    await process.store.ask(process.hosts.process, "req_2")
    await until(lambda: process.store.stored)
    assert await process.hosts.receipt("req_1") == {"receipt": {"ended": "open"}}
    assert process.store.rows == [], "its row comes when it has ended"


async def test_open_requests_are_written_while_others_watch(process: Process) -> None:
    await until(lambda: process.store.states)
    assert process.store.open_rows == {}
    await process.store.read(watch=True)
    await until(lambda: process.store.open_rows)


async def test_a_process_that_stops_writes_what_is_left_and_leaves() -> None:
    store = MemoryHostStore()
    hosts = SharedHosts(store, "a", "gw", Totals())
    hosts.views = Views()
    await hosts.open()
    await until(lambda: store.states)
    hosts.ended(Receipt("req_1", Dialect.CHAT, 0, ended="completed"), None)
    await hosts.close()
    assert list(store.stored) == ["req_1"]
    assert store.states == {}


async def test_only_the_state_is_shared_without_receipts() -> None:
    store = MemoryHostStore()
    hosts = SharedHosts(store, "a", "gw", Totals(), shares_receipts=False)
    hosts.views = Views()
    await hosts.open()
    hosts.ended(Receipt("req_1", Dialect.CHAT, 0, ended="completed"), None)
    await until(lambda: store.states)
    await hosts.close()
    assert store.stored == {}
