"""The thread that writes rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from dragoman_server.accounts.usage import sink
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
