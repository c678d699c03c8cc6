"""The directory of captures."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.observability.captures.store import CaptureStore, read_capture

NOW = 1_790_000_000.0


def content(capture_id: str, size: int = 0) -> bytes:
    summary = {"object": "dragoman.capture", "version": 1, "id": capture_id}
    return json.dumps(summary).encode() + b"\n" + json.dumps({"body": "x" * size}).encode() + b"\n"


def store(folder: Path, **limits: Any) -> CaptureStore:
    settings = {"number": 10, "total_bytes": 100_000, "seconds": 3600.0, **limits}
    made = CaptureStore(folder / "captures", now=lambda: NOW, **settings)
    made.open()
    return made


def write(of: CaptureStore, capture_id: str, at: float, size: int = 0) -> None:
    """Write a capture that has the time `at`."""
    of.write(capture_id, content(capture_id, size))
    path = of.directory / f"{capture_id}.capture"
    if path.exists():
        os.utime(path, (at, at))


def ids(of: CaptureStore, **limit: int) -> list[str]:
    return [summary["id"] for summary in of.list(**limit)]


def test_captures_are_listed_and_read(tmp_path: Path) -> None:
    captures = store(tmp_path)
    for number in range(3):
        write(captures, f"req_{number}", NOW + number)
    assert ids(captures) == ["req_2", "req_1", "req_0"]
    assert ids(captures, limit=1) == ["req_2"]
    found = captures.get("req_1")
    assert found is not None
    assert found.summary["id"] == "req_1"
    assert found.exchange == {"body": ""}
    assert captures.get("req_9") is None


def test_only_the_owner_may_read_them(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir(mode=0o755)
    captures = store(tmp_path)
    write(captures, "req_1", NOW)
    assert stat.S_IMODE(captures.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((captures.directory / "req_1.capture").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["../secret", "a/b", "", "a.b", "x" * 101, "req_1\n", "é"])
def test_an_id_is_no_path(tmp_path: Path, name: str) -> None:
    captures = store(tmp_path)
    (tmp_path / "secret.capture").write_bytes(content("secret"))
    assert captures.get(name) is None
    with pytest.raises(ValueError, match="not an id"):
        captures.write(name, b"")


def test_a_link_is_no_capture(tmp_path: Path) -> None:
    captures = store(tmp_path)
    (tmp_path / "secret").write_bytes(content("secret"))
    (captures.directory / "req_1.capture").symlink_to(tmp_path / "secret")
    assert ids(captures) == []


def test_the_oldest_are_deleted_by_number_size_and_age(tmp_path: Path) -> None:
    captures = store(tmp_path, number=2)
    for number in range(4):
        write(captures, f"req_{number}", NOW - 10 + number)
    captures.prune()
    assert ids(captures) == ["req_3", "req_2"]
    large = store(tmp_path, total_bytes=1000)
    write(large, "req_4", NOW - 1, 700)
    large.prune()
    assert ids(large) == ["req_4", "req_3", "req_2"]
    write(large, "req_5", NOW, 700)
    large.prune()
    assert ids(large) == ["req_5"]
    write(large, "req_6", NOW + 1, 1000)
    assert ids(large) == []
    old = store(tmp_path, seconds=60.0)
    write(old, "req_7", NOW - 61)
    write(old, "req_8", NOW - 59)
    old.prune()
    assert ids(old) == ["req_8"]


def test_what_a_killed_process_left_is_deleted_later(tmp_path: Path) -> None:
    captures = store(tmp_path)
    left = captures.directory / "req_1.capture.part"
    left.write_bytes(b"{")
    os.utime(left, (NOW - 60, NOW - 60))
    captures.prune()
    assert left.exists()
    os.utime(left, (NOW - 4000, NOW - 4000))
    captures.prune()
    assert not left.exists()


def test_a_damaged_file_is_left_out(tmp_path: Path) -> None:
    captures = store(tmp_path)
    write(captures, "req_1", NOW)
    for name, data in (("a", b""), ("b", b"{}\n{}\n"), ("c", b"[]\n"), ("d", b"x" * 30_000)):
        (captures.directory / f"{name}.capture").write_bytes(data)
        with pytest.raises(ValueError, match="not a capture"):
            read_capture(captures.directory / f"{name}.capture")
    assert ids(captures) == ["req_1"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures = store(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="space"):
        captures.write("req_1", content("req_1"))
    assert list(captures.directory.iterdir()) == []


def test_several_workers_share_the_directory(tmp_path: Path) -> None:
    workers = [store(tmp_path, number=5) for _ in range(4)]
    failed: list[Exception] = []

    def work(number: int, own: CaptureStore) -> None:
        try:
            for turn in range(25):
                own.write(f"req_{number}_{turn}", content("x", 100))
                own.list()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(workers[0].list()) == 5
