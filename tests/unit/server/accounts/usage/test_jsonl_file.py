"""Rows as lines of JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.accounts.usage.jsonl_file import JsonlFile


def row(number: int, **more: Any) -> Any:
    """A row of any form: the file does not read it."""
    return {"n": number, **more}


def lines(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_rows_are_appended_and_only_the_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    for number in range(2):
        file = JsonlFile(str(path), 1000, 2)
        file.open()
        file.write([row(number), row(number)])
        file.close()
    assert lines(path) == [0, 0, 1, 1]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_long_file_is_renamed_and_the_oldest_is_deleted(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    file = JsonlFile(str(path), 1000, 2)
    file.open()
    for number in range(6):
        file.write([row(number, text="x" * 900)])
    file.close()
    assert lines(path) == [5]
    assert [lines(tmp_path / f"u.jsonl.{number}") for number in (1, 2)] == [[4], [3]]
    assert not (tmp_path / "u.jsonl.3").exists()


APPEND = """
import sys
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
file = JsonlFile(sys.argv[1], 5000, 50)
file.open()
for number in range(200):
    file.write([{"n": int(sys.argv[2]) + number, "text": "x" * 100}])
file.close()
"""


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    workers = [subprocess.Popen([sys.executable, "-c", APPEND, path, str(1000 * each)]) for each in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    found = [number for each in tmp_path.iterdir() for number in lines(each)]
    assert sorted(found) == [1000 * each + number for each in range(3) for number in range(200)]
    assert all(each.stat().st_size <= 5000 for each in tmp_path.iterdir())


def test_a_file_that_was_deleted_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "u.jsonl"
    file = JsonlFile(str(path), 1000, 2)
    file.open()
    file.write([row(1)])
    path.unlink()
    file.write([row(2)])
    file.close()
    assert lines(path) == [2]


def test_a_file_that_cannot_be_opened_again_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = JsonlFile(str(folder / "u.jsonl"), 1000, 2)
    file.open()
    shutil.rmtree(folder)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.write([row(1)])
    folder.mkdir()
    file.write([row(2)])
    file.close()
    assert lines(folder / "u.jsonl") == [2]


def test_half_a_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "u.jsonl"
    file = JsonlFile(str(path), 100_000, 2)
    file.open()
    file.write([row(1)])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:20])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        file.write([row(2), row(3), row(4), row(5)])
    monkeypatch.undo()
    file.write([row(2)])
    file.close()
    assert lines(path) == [1, 2]


def test_only_what_others_wrote_is_read_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "u.jsonl"
    path.write_bytes(b'{"n":0}')
    reads, real = [], os.pread

    def read(*arguments: int) -> bytes:
        reads.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(os, "pread", read)
    file = JsonlFile(str(path), 100_000, 2)
    file.open()
    for number in (1, 2, 3):
        file.write([row(number)])
    assert len(reads) == 1
    with path.open("ab") as other:
        other.write(b'{"n":4}')
    file.write([row(5)])
    file.write([row(6)])
    file.close()
    assert len(reads) == 2
    assert lines(path) == [0, 1, 2, 3, 4, 5, 6]


def written(path: Path) -> list[str]:
    """The ids of the whole rows of a file."""
    return [json.loads(line)["id"] for line in path.read_bytes().splitlines() if line.endswith(b"}")]


def test_rows_that_a_file_has_are_not_written_again(tmp_path: Path, booked: Callable[..., Any]) -> None:
    path, rows = tmp_path / "u.jsonl", [booked(number) for number in range(6)]
    file = JsonlFile(str(path), 1200, 3)
    file.open()
    for each in rows[:4]:
        file.write([each])
    assert (tmp_path / "u.jsonl.1").exists()
    file.write_missing(rows[:4])
    file.write_missing([*rows[2:], rows[5]])
    file.write_missing(rows)
    file.close()
    found = [each for name in tmp_path.iterdir() for each in written(name)]
    assert sorted(found) == [each.id for each in rows]


def test_a_row_that_was_cut_off_is_written_again(tmp_path: Path, booked: Callable[..., Any]) -> None:
    path = tmp_path / "u.jsonl"
    file = JsonlFile(str(path), 100_000, 3)
    file.open()
    file.write([booked(1), booked(2)])
    path.write_bytes(path.read_bytes()[:-10])
    file.write_missing([booked(1), booked(2)])
    file.close()
    assert written(path) == ["req_1", "req_2"]


def test_files_from_before_the_rows_are_not_read(tmp_path: Path, booked: Callable[..., Any]) -> None:
    path, old = tmp_path / "u.jsonl", tmp_path / "u.jsonl.1"
    file = JsonlFile(str(path), 100_000, 3)
    file.open()
    file.write([booked(1)])
    os.rename(path, old)
    os.utime(old, (1_000_000_000, 1_000_000_000))
    os.chmod(old, 0o600)
    opened = [booked(2)]
    file.write_missing(opened)
    assert (written(old), written(path)) == (["req_1"], ["req_2"])
    file.write_missing([booked(1)])  # it cannot be in a file that was last written years before it
    file.close()
    assert written(path) == ["req_2", "req_1"]


def test_standard_output_is_possible(capfd: pytest.CaptureFixture[str]) -> None:
    file = JsonlFile("-", 1000, 2)
    file.open()
    file.write([row(1)])
    file.close()
    assert capfd.readouterr().out == '{"n":1}\n'


@pytest.mark.parametrize("provisional", ["lost", "running"])
def test_an_end_follows_a_provisional_row_and_nothing_follows_an_end(
    tmp_path: Path, booked: Callable[..., Any], provisional: str
) -> None:
    """Each order of the three has the same result, in one file and in renamed ones."""
    path = tmp_path / "u.jsonl"
    first, end = booked(1, ended=provisional), booked(1)
    for most in (1, 100_000):
        file = JsonlFile(str(path), most, 9)
        file.open()
        for rows in ([first], [first], [end, first], [end], [first]):
            file.write_missing(rows)
        file.close()
        files = sorted(tmp_path.glob("u.jsonl*"), reverse=True)
        found = [json.loads(line)["ended"] for each in files for line in each.read_text().splitlines()]
        assert found == [provisional, "completed"]
        for each in files:
            each.unlink()
