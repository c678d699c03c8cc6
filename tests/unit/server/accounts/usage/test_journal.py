"""The journal of exchanges that have begun."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.wire import Json, json_dumps
from dragoman_server.accounts.usage.journal import SLOT, Begun, FileJournal


def begun(number: int, **more: Any) -> Begun:
    return Begun(f"req_{number}", json_dumps({"id": f"req_{number}", **more}))


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("*begun*"))


def abandon(journal: FileJournal) -> None:
    """Close the file as the end of a killed process does."""
    os.close(journal._file)
    journal._file = -1


def taken(path: Path) -> list[str]:
    """The ids that another process takes."""
    found: list[str] = []
    FileJournal(str(path)).take_lost(lambda _, entries: found.extend(entry["id"] for entry in entries))
    return sorted(found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "u.[jsonl]"


def test_a_graceful_end_leaves_nothing(path: Path) -> None:
    journal = FileJournal(str(path))
    journal.begin([begun(1), begun(2)])
    [file] = journals(path.parent)
    assert file.stat().st_mode & 0o777 == 0o600
    journal.end(["req_1", "req_2", "unknown"])
    journal.close()
    assert journals(path.parent) == []
    FileJournal(str(path)).close()  # never used


def test_entries_without_an_end_are_taken_once(path: Path) -> None:
    journal = FileJournal(str(path))
    journal.begin([begun(number) for number in range(5)])
    journal.end(["req_1", "req_3"])
    journal.begin([begun(5), begun(2, attempts=2)])
    assert taken(path) == []  # its process lives
    abandon(journal)
    assert taken(path) == ["req_0", "req_2", "req_4", "req_5"]
    assert taken(path) == []
    assert journals(path.parent) == []


def test_what_is_left_at_the_end_becomes_lost(path: Path) -> None:
    journal = FileJournal(str(path))
    journal.begin([begun(1), begun(2)])
    journal.end(["req_1"])
    journal.close()
    assert taken(path) == ["req_2"]


def test_slots_are_used_again(path: Path) -> None:
    journal = FileJournal(str(path))
    for number in range(1000):
        journal.begin([begun(number), begun(number + 10_000)])
        journal.end([f"req_{number}", f"req_{number + 10_000}"])
    [file] = journals(path.parent)
    assert file.stat().st_size <= 3 * SLOT
    journal.close()


@pytest.mark.parametrize("text", ["x", "\x01", "東", '"'])
def test_a_long_entry_fits_into_its_slot(path: Path, text: str) -> None:
    journal, more = FileJournal(str(path)), {f"text_{number}": text * 200 for number in range(10)}
    time = "2026-11-21T00:00:00Z"
    journal.begin([begun(1, time=time, **more), begun(2)])
    abandon(journal)
    found: list[Json] = []
    FileJournal(str(path)).take_lost(lambda _, entries: found.extend(entries))
    assert [entry["id"] for entry in found] == ["req_1", "req_2"]
    assert found[0]["time"] == time
    assert found[0]["text_0"][:5] == text * 5


def test_what_cannot_be_booked_is_kept(path: Path) -> None:
    journal = FileJournal(str(path))
    journal.begin([begun(1)])
    abandon(journal)

    def fail(process: str, entries: Sequence[Json]) -> None:
        assert process == f"{os.uname().nodename}:{os.getpid()}"
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        FileJournal(str(path)).take_lost(fail)
    assert taken(path) == ["req_1"]


def test_half_an_entry_is_ignored(path: Path) -> None:
    journal = FileJournal(str(path))
    journal.begin([begun(1), begun(2)])
    os.pwrite(journal._file, b'{"id":"req_', 3 * SLOT)
    os.pwrite(journal._file, b"[1]\n", 4 * SLOT)
    abandon(journal)
    assert taken(path) == ["req_1", "req_2"]


def test_a_full_disk_is_an_error_and_later_entries_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, real = FileJournal(str(path)), os.pwrite
    journal.begin([begun(1)])
    monkeypatch.setattr(os, "pwrite", lambda file, data, position: real(file, data[:3], position))
    with pytest.raises(OSError, match="No space"):
        journal.begin([begun(2)])
    monkeypatch.undo()
    journal.begin([begun(3)])
    journal.end(["req_1", "req_2"])
    abandon(journal)
    assert taken(path) == ["req_3"]


def test_a_folder_that_is_missing_is_an_error_until_it_is_there(path: Path) -> None:
    journal = FileJournal(str(path.parent / "folder" / "u"))
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            journal.begin([begun(1)])
    (path.parent / "folder").mkdir()
    journal.begin([begun(1)])
    journal.end(["req_1"])
    journal.close()


BEGIN = """
import os, sys
from dragoman_server.accounts.usage.journal import Begun, FileJournal
journal, number = FileJournal(sys.argv[1]), 0
while True:
    journal.begin([Begun(f"{os.getpid()}-{number}", b'{"id":"%d-%d"}' % (os.getpid(), number))])
    if number % 2:
        journal.end([f"{os.getpid()}-{number}"])
    number += 1
    os.write(1, b"%d\\n" % number)
"""


def test_several_processes_take_the_entries_of_killed_ones(path: Path) -> None:
    """Each entry that a process reported as written, and has not ended, is taken once; those of living ones are not."""
    running = [subprocess.Popen([sys.executable, "-c", BEGIN, path], stdout=subprocess.PIPE) for _ in range(3)]
    written: set[str] = set()
    counts = []
    for process in running:
        assert process.stdout is not None
        counts.append([process.stdout.readline() for _ in range(50)][-1])
    found = []
    for process, fiftieth in zip(running, counts, strict=True):
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        # Nothing may follow the fiftieth line, of a process that is slow.
        count = int((fiftieth + process.stdout.read()).split()[-1])
        process.wait(60)
        process.stdout.close()
        written |= {f"{process.pid}-{number}" for number in range(0, count, 2)}
        mine = taken(path)
        assert {each.partition("-")[0] for each in mine} == {str(process.pid)}
        found += mine
    assert len(found) == len(set(found))
    assert written <= set(found)
    assert len(found) - len(written) <= len(running)  # the write that the kill interrupted
