"""The thread that writes captures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.observability.captures.recording import Recording
from dragoman_server.observability.captures.store import CaptureStore
from dragoman_server.observability.captures.writer import CaptureWriter


def recording(request_id: str) -> Recording:
    return Recording(request_id, "share", 1000, lambda: 0.0, (), lambda *_: None)


def test_failures_are_reported_once_and_do_not_end_the_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[bool] = []
    store = CaptureStore(tmp_path / "captures", 10, 10_000, 60.0, lambda: 0.0)
    writer = CaptureWriter(store, texts=False, done=done.append)
    writer.open()
    write, failures = store.write, [OSError(28, "No space left on device"), ValueError("a text of the client"), None]

    def failing(capture_id: str, content: bytes) -> None:
        if (failure := failures.pop(0)) is not None:
            raise failure
        write(capture_id, content)

    monkeypatch.setattr(store, "write", failing)
    facts: dict[str, Any] = {"model": "m"}
    with caplog.at_level(logging.DEBUG):
        for number in range(3):
            writer.put(recording(f"req_{number}"), facts, {})
        writer.close(60)
    assert done == [False, False, True]
    assert [summary["id"] for summary in store.list()] == ["req_2"]
    assert [record.getMessage() for record in caplog.records] == ["captures cannot be written: No space left on device"]
