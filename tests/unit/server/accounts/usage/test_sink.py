"""The thread that writes rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman_server.accounts.usage import sink
from dragoman_server.accounts.usage.journal import Begun, Book
from dragoman_server.accounts.usage.sink import RowSink
from support.waiting import PATIENCE


def row(number: int) -> Any:
    """A row of any form: the sink does not read it."""
    return {"id": number}


class Memory:
    """A file in memory. While `broken` is set, writes fail; while `gate` is not, they wait."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.broken = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.tried = threading.Event()
        self.closed = False

    def open(self) -> None:
        """Nothing to open."""

    def write(self, rows: Sequence[Any]) -> None:
        """Keep the rows."""
        self.gate.wait(10)
        self.tried.set()
        if self.broken.is_set():
            raise OSError("no space left")
        self.rows += rows

    def write_missing(self, rows: Sequence[Any]) -> None:
        """Keep the rows, as all ids are new."""
        self.write(rows)

    def close(self) -> None:
        """Close."""
        self.closed = True


def test_all_rows_are_written_in_order_by_the_end() -> None:
    file = Memory()
    dropped: list[int] = []
    writer = RowSink(file, dropped.append)
    writer.open()
    for number in range(1000):
        writer.add(row(number))
    writer.close(10)
    assert [row["id"] for row in file.rows] == [*range(1000)]
    assert file.closed
    assert not dropped


def test_a_write_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sink, "_RETRY_SECONDS", 0.01)
    file = Memory()
    file.broken.set()
    writer = RowSink(file, lambda _: None)
    writer.open()
    writer.add(row(1))
    assert file.tried.wait(10)
    file.broken.clear()
    writer.close(10)
    assert file.rows == [{"id": 1}]
    assert caplog.text.count("usage cannot be written") == 1


def test_an_unexpected_error_does_not_end_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_RETRY_SECONDS", 0.01)
    file = Memory()
    errors: list[Exception] = [OverflowError("too large"), TypeError("not a row")]

    def write(rows: Sequence[Any]) -> None:
        if errors:
            raise errors.pop()
        file.rows += rows

    monkeypatch.setattr(file, "write", write)
    writer = RowSink(file, lambda _: None)
    writer.open()
    writer.add(row(1))
    deadline = time.monotonic() + PATIENCE
    while not file.rows and time.monotonic() < deadline:
        time.sleep(0.005)
    assert file.rows == [{"id": 1}]
    writer.close(10)
    assert file.rows == [{"id": 1}]


def test_rows_that_cannot_be_written_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "PENDING_MAX", 3)
    file = Memory()
    dropped: list[int] = []
    file.broken.set()
    writer = RowSink(file, dropped.append)
    writer.open()
    for number in range(5):
        writer.add(row(number))
    assert dropped == [1, 1]
    writer.close(10)
    assert dropped == [1, 1, 3]


def test_closing_does_not_wait_for_ever() -> None:
    file = Memory()
    dropped: list[int] = []
    file.gate.clear()
    writer = RowSink(file, dropped.append)
    writer.open()
    writer.add(row(1))
    writer.close(0.05)
    assert dropped == [1]
    file.gate.set()


def test_a_sink_that_was_never_opened_can_be_closed() -> None:
    RowSink(Memory(), lambda _: None).close(1)


class Entries:
    """A journal in memory, with entries of killed processes."""

    def __init__(self, *lost: str) -> None:
        self.lost = [{"id": each} for each in lost]
        self.ended: list[str] = []
        self.is_full = False
        self.closed = False

    def begin(self, begun: Sequence[Begun]) -> None:
        """Not called: another thread does."""

    def end(self, ids: Iterable[str]) -> None:
        """Keep the ids."""
        if self.is_full:
            raise OSError("no space left")
        self.ended += ids

    def take_lost(self, book: Book) -> None:
        """Book the entries."""
        if self.lost:
            book("host:1", self.lost)
            self.lost = []

    def close(self) -> None:
        """Close."""
        self.closed = True


def named(name: str) -> Any:
    return SimpleNamespace(id=name)


def test_entries_end_when_their_rows_are_written() -> None:
    file, entries = Memory(), Entries()
    writer = RowSink(file, lambda _: None, entries, lambda entry: named(entry["id"]))
    writer.open()
    file.broken.set()
    writer.add(named("a"))
    assert file.tried.wait(10)
    assert entries.ended == []
    file.broken.clear()
    writer.add_missing(named("b"))
    writer.close(10)
    assert [row.id for row in file.rows] == entries.ended == ["a", "b"]
    assert entries.closed


def test_an_entry_that_cannot_be_removed_does_not_repeat_its_row() -> None:
    file, entries = Memory(), Entries()
    entries.is_full = True
    writer = RowSink(file, lambda _: None, entries, lambda entry: named(entry["id"]))
    writer.open()
    writer.add(named("a"))
    writer.close(10)
    assert [row.id for row in file.rows] == ["a"]


def test_exchanges_of_killed_processes_are_booked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sink, "_SEARCH_SECONDS", 0.01)
    file, entries = Memory(), Entries("a", "b")
    writer = RowSink(file, lambda _: None, entries, lambda entry: named(entry["id"]))
    file.broken.set()
    writer.open()
    wait_for(lambda: "tried again" in caplog.text)
    assert file.rows == []
    file.broken.clear()
    wait_for(lambda: len(file.rows) == 2)
    writer.close(10)
    assert [row.id for row in file.rows] == ["a", "b"]
    assert "2 exchanges were lost with the process host:1" in caplog.text


async def test_flush_waits_for_the_rows_that_were_added() -> None:
    file = Memory()
    writer = RowSink(file, lambda _: None)
    writer.open()
    await writer.flush()
    for number in range(3):
        writer.add(row(number))
        writer.add(row(number))
        await writer.flush()
        assert len(file.rows) == 2 * number + 2
    writer.close(10)


async def test_flush_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_FLUSH_SECONDS", 0.01)
    file = Memory()
    writer = RowSink(file, lambda _: None)
    writer.open()
    file.gate.clear()
    writer.add(row(1))
    await writer.flush()
    assert file.rows == []
    file.gate.set()
    writer.close(10)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def test_flush_waits_for_rows_that_the_file_may_have() -> None:
    file = Memory()
    writer = RowSink(file, lambda _: None)
    writer.open()
    writer.add_missing(row(1))
    await writer.flush()
    assert file.rows == [row(1)]
    writer.close(10)


def test_an_entry_that_is_kept_elsewhere_is_removed_without_a_row() -> None:
    file, entries = Memory(), Entries()
    writer = RowSink(file, lambda _: None, entries, lambda entry: named(entry["id"]))
    writer.open()
    writer.forget("a")
    writer.close(10)
    assert (file.rows, entries.ended) == ([], ["a"])
    RowSink(file, lambda _: None).forget("a")
