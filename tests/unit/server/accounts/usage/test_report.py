"""Sums of rows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.accounts.usage.row import row_of
from dragoman_server.accounts.usage.sqlite_file import SqliteFile


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_rows_of_both_files_have_the_same_sums(tmp_path: Path, record: Callable[..., Any], kind: str) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"), max_bytes=1000)
    file = JsonlFile(options.file, 1000, 10) if kind == "jsonl" else SqliteFile(options.file, 0)
    file.open()
    for number in range(9):
        file.write([row_of(record(number, key=("a", "b", None)[number % 3], cost=Decimal("0.1")))])
    file.write([row_of(record(10, key="a", cost=None, ended="abandoned", estimated=("output_total",)))])
    file.write([row_of(record(11, key="a", cost=None, usage=None, ended="rejected"))])
    file.close()
    found = sums(read_rows(options), "key")
    assert [*found] == ["", "a", "b"]
    assert found["a"].as_json() == {
        "exchanges": 5,
        **{"input": 400, "cache_read": 40, "cache_write": 0, "output": 28, "reasoning": 12},
        "cost": 0.3,
        "unpriced": 1,
        "estimated": 1,
        "partial": 1,
    }


def test_sums_by_day_and_since(record: Callable[..., Any]) -> None:
    rows = [
        row_of(record(each, created=1_790_000_000 + each * 86_400, usage=Usage(1, None, None, 1))) for each in range(4)
    ]
    assert [*sums(rows, "day")] == ["2026-09-21", "2026-09-22", "2026-09-23", "2026-09-24"]
    assert [*sums(rows, "day", "2026-09-23")] == ["2026-09-23", "2026-09-24"]
    assert [*sums(rows, "month")] == ["2026-09"]


def test_a_line_that_is_no_row_is_reported(tmp_path: Path) -> None:
    (tmp_path / "u").write_text("{}\nhello\n")
    with pytest.raises(ValueError, match="line 2 is not a row"):
        sums(read_rows(UsageOptions("jsonl", str(tmp_path / "u"))), "key")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    for kind in ("jsonl", "sqlite"):
        with pytest.raises(OSError):
            sums(read_rows(UsageOptions(kind, str(tmp_path / "missing"))), "key")
