"""The queue of settlements: order, batches, a store that is away, and the limit of the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from dragoman_server.accounts import settlements as module
from dragoman_server.accounts.limits.claim import Settlement
from dragoman_server.accounts.settlements import Settlements
from dragoman_server.accounts.store.interface import StoreError
from support.claims import settlement_on


class Sink:
    """Takes settlements, unless it is away."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.away = False
        self.dropped = 0
        self.queue = Settlements(self.send, self.drop)

    async def send(self, settlements: Sequence[Settlement]) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise StoreError("away")
        self.batches.append([each.claim.lease for each in settlements])

    def drop(self) -> None:
        self.dropped += 1

    @property
    def leases(self) -> list[str]:
        return [lease for batch in self.batches for lease in batch]


@asynccontextmanager
async def running(sink: Sink) -> AsyncIterator[Settlements]:
    task = asyncio.create_task(sink.queue.run())
    try:
        yield sink.queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def settlement(number: int, key: str = "alice") -> Settlement:
    return settlement_on(key, str(number), True)


async def test_settlements_that_end_together_are_sent_together_and_in_order() -> None:
    sink = Sink()
    async with running(sink) as queue:
        for number in range(250):
            queue.add(settlement(number))
        await queue.flush(5)
    assert [len(batch) for batch in sink.batches] == [100, 100, 50]
    assert sink.leases == [str(number) for number in range(250)]


async def test_it_is_known_for_which_keys_settlements_wait() -> None:
    sink = Sink()
    async with running(sink) as queue:
        queue.add(settlement(1))
        queue.add(settlement(2))
        queue.add(settlement(3, "bob"))
        assert queue.holds("alice")
        assert queue.holds("bob")
        assert not queue.holds("carol")
        await queue.flush(5)
        assert not queue.holds("alice")
        assert len(queue) == 0


async def test_a_store_that_is_away_gets_them_later() -> None:
    sink = Sink()
    sink.away = True
    async with running(sink) as queue:
        queue.add(settlement(1))
        await queue.flush(0.05)
        queue.add(settlement(2))
        await queue.flush(0.05)
        assert len(queue) == 2
        sink.away = False
        queue.resume()
        await queue.flush(5)
    assert sink.leases == ["1", "2"]


async def test_a_full_queue_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 3)
    sink = Sink()
    for number in range(5):
        sink.queue.add(settlement(number, key=f"k{number}"))
    assert sink.dropped == 2
    assert not sink.queue.holds("k0")
    async with running(sink) as queue:
        await queue.flush(5)
    assert sink.leases == ["2", "3", "4"]


async def test_what_a_full_queue_drops_while_it_is_sent_is_not_removed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 2)
    sink = Sink()
    async with running(sink) as queue:
        queue.add(settlement(1))
        queue.add(settlement(2))
        await asyncio.sleep(0)  # both are under way
        queue.add(settlement(3))
        await queue.flush(5)
        assert len(queue) == 0
    assert sink.leases == ["1", "2", "3"]
