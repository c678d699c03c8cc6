"""Sums of rows."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.accounts.usage.sqlite_file import SqliteFile


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_rows_of_both_files_have_the_same_sums(tmp_path: Path, booked: Callable[..., Any], kind: str) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"), max_bytes=1000)
    file = JsonlFile(options.file, 1000, 10) if kind == "jsonl" else SqliteFile(options.file, 0)
    file.open()
    for number in range(9):
        file.write([booked(number, key=("a", "b", None)[number % 3], cost=Decimal("0.1"))])
    file.write([booked(10, key="a", cost=None, ended="abandoned", estimated=("output_total",))])
    file.write([booked(11, key="a", cost=None, usage=None, ended="rejected")])
    file.close()
    found = sums(read_rows(options), "key")
    assert [*found] == ["", "a", "b"]
    assert found["a"].as_json() == {
        "exchanges": 5,
        **{"input": 400, "cache_read": 40, "cache_write": 0, "cache_write_1h": 0, "output": 28, "reasoning": 12},
        "cost": 0.3,
        "unpriced": 1,
        "estimated": 1,
        "partial": 1,
    }


def test_sums_by_day_and_since(booked: Callable[..., Any]) -> None:
    rows = [
        vars(booked(each, created=1_790_000_000 + each * 86_400, usage=Usage(1, None, None, 1))) for each in range(4)
    ]
    assert [*sums(rows, "day")] == ["2026-09-21", "2026-09-22", "2026-09-23", "2026-09-24"]
    assert [*sums(rows, "day", "2026-09-23")] == ["2026-09-23", "2026-09-24"]
    assert [*sums(rows, "month")] == ["2026-09"]


def test_a_line_that_is_no_row_is_reported(tmp_path: Path) -> None:
    (tmp_path / "u").write_text("{}\nhello\n")
    with pytest.raises(ValueError, match="line 2 is not a row"):
        sums(read_rows(UsageOptions("jsonl", str(tmp_path / "u"))), "key")


def test_a_row_that_was_not_written_to_its_end_is_left_out(tmp_path: Path, booked: Callable[..., Any]) -> None:
    options = UsageOptions("jsonl", str(tmp_path / "u"))
    for number in range(2):
        file = JsonlFile(options.file, 1_000_000, 1)
        file.open()
        file.write([booked(number), booked(number + 10)])
        file.close()
        path = Path(options.file)
        path.write_bytes(path.read_bytes()[:-40])  # the process was killed
    assert [row["id"] for row in read_rows(options)] == ["req_0", "req_1"]


@pytest.mark.parametrize("length", range(0, 9))
def test_a_row_of_which_only_the_first_bytes_were_written_is_left_out(
    tmp_path: Path, booked: Callable[..., Any], length: int
) -> None:
    options = UsageOptions("jsonl", str(tmp_path / "u"))
    for number in range(2):
        file = JsonlFile(options.file, 1_000_000, 1)
        file.open()
        file.write([booked(number)])
        file.close()
        with open(options.file, "ab") as half:
            half.write(b'{"time":"2'[:length])  # the process was killed
    assert [row["id"] for row in read_rows(options)] == ["req_0", "req_1"]


KILLED = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 5")
db.execute("BEGIN IMMEDIATE")
db.executemany("INSERT INTO usage (id, model) VALUES (?, ?)", ((f"half_{n}", "m" * 200) for n in range(2000)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_transaction_of_a_killed_process_is_rolled_back(tmp_path: Path, booked: Callable[..., Any]) -> None:
    options = UsageOptions("sqlite", str(tmp_path / "a ?#%41"))
    file = SqliteFile(options.file, 0)
    file.open()
    file.write([booked(1)])
    file.close()
    killed = subprocess.run([sys.executable, "-c", KILLED, options.file], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert Path(options.file + "-journal").exists()
    assert [row["id"] for row in read_rows(options)] == ["req_1"]


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    for kind in ("jsonl", "sqlite"):
        with pytest.raises(OSError):
            sums(read_rows(UsageOptions(kind, str(tmp_path / "missing"))), "key")
