"""The thread that writes entries before requests are sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest

from dragoman.aio import FewPerTurn
from dragoman_server.accounts.usage import journal_writer
from dragoman_server.accounts.usage.journal import Begun, Book
from dragoman_server.accounts.usage.journal_writer import SENT, JournalWriter
from support.waiting import until


class Memory:
    """A journal in memory. While `error` is set, writes fail; while `gate` is not, they wait."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def begin(self, begun: Sequence[Begun]) -> None:
        """Keep entries."""
        self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self.batches.append([each.id for each in begun])

    def end(self, ids: Iterable[str]) -> None:
        """Not called."""

    def take_lost(self, book: Book) -> None:
        """Not called."""

    def close(self) -> None:
        """Not called."""

    @property
    def ids(self) -> list[str]:
        """All that were written."""
        return [each for batch in self.batches for each in batch]


@pytest.fixture
def memory() -> Memory:
    return Memory()


async def test_entries_are_written_when_begin_returns(memory: Memory) -> None:
    unguarded: list[int] = []
    writer = JournalWriter(memory, unguarded.append)
    writer.open()
    for number in range(10):
        await writer.begin(str(number), b"{}")
        assert memory.ids == [str(each) for each in range(number + 1)]
    writer.close()
    assert not unguarded
    assert not writer.failing


async def test_what_begins_meanwhile_is_written_together(memory: Memory) -> None:
    writer = JournalWriter(memory, lambda _: None)
    writer.open()
    memory.gate.clear()
    first = asyncio.create_task(writer.begin("first", b"{}"))
    await until(lambda: not writer._pending and bool(writer._open))
    rest = [asyncio.create_task(writer.begin(str(number), b"{}")) for number in range(50)]
    await until(lambda: len(writer._pending) == 50)
    memory.gate.set()
    await asyncio.gather(first, *rest)
    writer.close()
    assert memory.batches == [["first"], [str(number) for number in range(50)]]


async def test_requests_are_sent_although_the_disk_is_full(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    unguarded: list[int] = []
    writer = JournalWriter(memory, unguarded.append)
    writer.open()
    memory.error = OSError("no space left")
    for number in range(3):
        await writer.begin(str(number), b"{}")
    assert writer.failing
    assert unguarded == [1, 1, 1]
    assert caplog.text.count("no space left") == 1
    memory.error = None
    await writer.begin("4", b"{}")
    assert not writer.failing
    assert memory.ids == ["4"]
    assert caplog.text.count("is written again") == 1
    writer.close()


async def test_a_disk_that_hangs_delays_requests_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_writer, "SECONDS", 0.05)
    unguarded: list[int] = []
    writer = JournalWriter(memory, unguarded.append)
    writer.open()
    memory.gate.clear()
    await asyncio.gather(*(writer.begin(str(number), b"{}") for number in range(3)))
    assert sum(unguarded) == 3
    await writer.begin("4", b"{}")  # at once: the thread does not answer
    assert sum(unguarded) == 4
    assert caplog.text.count("has not answered") == 1
    memory.gate.set()
    await until(lambda: not writer.failing)
    await writer.begin("5", b"{}")
    assert memory.ids[-1] == "5"
    assert sum(unguarded) == 4
    writer.close()


async def test_a_client_that_leaves_does_not_disturb_the_others(memory: Memory) -> None:
    writer = JournalWriter(memory, lambda _: None)
    writer.open()
    memory.gate.clear()
    first = asyncio.create_task(writer.begin("first", b"{}"))
    await until(lambda: not writer._pending and bool(writer._open))
    left, stays = (asyncio.create_task(writer.begin(name, b"{}")) for name in ("left", "stays"))
    await until(lambda: len(writer._pending) == 2)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    memory.gate.set()
    await asyncio.gather(first, stays)
    writer.close()
    assert memory.ids == ["first", "stays"]


async def test_without_a_thread_nothing_waits(memory: Memory) -> None:
    unguarded: list[int] = []
    writer = JournalWriter(memory, unguarded.append)
    await writer.begin("1", b"{}")
    writer.close()
    assert unguarded == [1]


async def test_a_turn_sends_few_of_the_requests_that_were_written_together(memory: Memory) -> None:
    writer = JournalWriter(memory, lambda _: None)
    writer._sent = FewPerTurn(SENT, clock=lambda: 0.0)
    writer.open()
    memory.gate.clear()
    sent: list[int] = []

    async def send(number: int) -> None:
        await writer.begin(str(number), b"{}")
        sent.append(number)

    first = asyncio.create_task(send(0))
    await until(lambda: not writer._pending)
    tasks = [asyncio.create_task(send(number)) for number in range(1, 30)]
    await asyncio.sleep(0)
    memory.gate.set()
    counts = [0]
    while counts[-1] < 30:
        await asyncio.sleep(0)
        counts.append(len(sent))
    assert max(after - before for before, after in pairwise(counts)) <= SENT
    assert sent == [*range(30)]
    await asyncio.gather(first, *tasks)
    writer.close()
