"""Sums of rows."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman import Usage
from dragoman_server.accounts.usage.jsonl_file import JsonlFile
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.accounts.usage.report import read_rows, sums
from dragoman_server.accounts.usage.row import UsageRow
from dragoman_server.accounts.usage.sqlite_file import SqliteFile


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_rows_of_both_files_have_the_same_sums(tmp_path: Path, booked: Callable[..., Any], kind: str) -> None:
    options = UsageOptions(kind, str(tmp_path / "u"), max_bytes=1000, files=20)
    file = JsonlFile(options.file, 1000, 20) if kind == "jsonl" else SqliteFile(options.file, 0)
    file.open()
    for number in range(9):
        file.write([booked(number, key=("a", "b", None)[number % 3], cost=Decimal("0.1"))])
    file.write([booked(10, key="a", cost=None, ended="abandoned", estimated=("output_total",))])
    file.write([booked(11, key="a", cost=None, usage=None, ended="rejected")])
    file.write([booked(12, key=None, cost=None, usage=None, ended="lost")])
    file.close()
    found = sums(read_rows(options), ("key",))
    assert [*found] == [("",), ("a",), ("b",)]
    assert found[("a",)].as_json() == {
        "exchanges": 5,
        **{"input": 400, "cache_read": 40, "cache_write": 0, "cache_write_1h": 0, "output": 28, "reasoning": 12},
        "searches": 0,
        "cost": 0.3,
        "unpriced": 1,
        "estimated": 1,
        "partial": 1,
        "lost": 0,
        "running": 0,
    }
    assert (found[("",)].exchanges, found[("",)].lost) == (4, 1)
    lost = sums(read_rows(options, ended=("lost",)), ("ended", "key"))
    assert {groups: each.exchanges for groups, each in lost.items()} == {("lost", ""): 1}


@pytest.fixture(params=["jsonl", "sqlite"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., UsageOptions]:
    """Writes rows to a file of each kind, and returns its options."""

    def write(*rows: UsageRow) -> UsageOptions:
        options = UsageOptions(request.param, str(tmp_path / "u"))
        file = JsonlFile(options.file, 1_000_000, 10) if request.param == "jsonl" else SqliteFile(options.file, 0)
        file.open()
        file.write(rows)
        file.close()
        return options

    return write


def test_sums_by_day_between_two_times(kept: Callable[..., UsageOptions], booked: Callable[..., Any]) -> None:
    days = [booked(each, created=1_790_000_000 + each * 86_400, usage=Usage(1, None, None, 1)) for each in range(4)]
    options = kept(*days)

    def days_between(since: str = "", until: str = "") -> list[str]:
        return [day for (day,) in sums(read_rows(options, since, until), ("day",))]

    assert days_between() == ["2026-09-21", "2026-09-22", "2026-09-23", "2026-09-24"]
    assert days_between("2026-09-23") == ["2026-09-23", "2026-09-24"]
    assert days_between("2026-09-22", "2026-09-24T00:00:00Z") == ["2026-09-22", "2026-09-23"]
    assert [*sums(read_rows(options), ("month",))] == [("2026-09",)]


def test_several_dimensions_at_once(kept: Callable[..., UsageOptions], booked: Callable[..., Any]) -> None:
    tags = ("red", None, "red")
    options = kept(*(booked(each, key="ab"[each % 2], tag=tag) for each, tag in enumerate(tags)))
    found = sums(read_rows(options), ("tag", "key", "provider"))
    assert {groups: each.exchanges for groups, each in found.items()} == {("", "b", "p"): 1, ("red", "a", "p"): 2}


def test_what_other_models_used_is_theirs(kept: Callable[..., UsageOptions], booked: Callable[..., Any]) -> None:
    advised = Usage(40, 5, None, 4)
    usage = Usage(100, 10, None, 7, 3, other_models=(("adviser", advised), ("fallback", Usage(1, None, None, 1))))
    costs = {"cost": Decimal("0.5"), "other_costs": (Decimal("0.2"), None)}
    options = kept(booked(1, usage=usage, **costs), booked(2, usage=Usage(1, 0, 0, 1), cost=None))
    by_model = {model: each.as_json() for (model,), each in sums(read_rows(options), ("model",)).items()}
    counts = ("exchanges", "input", "cache_read", "output", "reasoning", "cost")
    assert {model: tuple(each[name] for name in counts) for model, each in by_model.items()} == {
        "adviser": (0, 40, 5, 4, 0, 0.2),
        "claude": (2, 60, 5, 3, 3, 0.3),
        "fallback": (0, 1, 0, 1, 0, 0.0),
    }
    (total,) = sums(read_rows(options), ("provider",)).values()
    for name in counts:
        assert sum(each[name] for each in by_model.values()) == pytest.approx(total.as_json()[name])


def test_a_total_that_is_unknown_loses_nothing_to_another_model(
    kept: Callable[..., UsageOptions], booked: Callable[..., Any]
) -> None:
    options = kept(booked(usage=Usage(None, None, None, 9, other_models=(("adviser", Usage(40, 5, None, 4)),))))
    found = sums(read_rows(options), ("model",))
    assert found[("claude",)].counts["input"] == 0
    assert found[("claude",)].counts["output"] == 5
    assert found[("adviser",)].counts["input"] == 40


def test_rows_of_the_first_version_are_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "u")) as db:
        db.execute("CREATE TABLE usage (time TEXT, id TEXT PRIMARY KEY, key TEXT, input INTEGER, cost INTEGER)")
        db.execute("INSERT INTO usage VALUES ('2026-11-20T09:00:00Z', 'req_0', 'ada', 5, 1000)")
        db.commit()
    found = sums(read_rows(UsageOptions("sqlite", str(tmp_path / "u"))), ("key", "tag", "tier"))
    assert found[("ada", "", "")].counts["input"] == 5
    (tmp_path / "j").write_text('{"time":"2026-11-20T09:00:00Z","id":"req_0","key":"ada","input":5}\n')
    found = sums(read_rows(UsageOptions("jsonl", str(tmp_path / "j"))), ("key", "model"))
    assert found[("ada", "")].counts["input"] == 5


def test_a_line_that_is_no_row_is_reported(tmp_path: Path) -> None:
    (tmp_path / "u").write_text("{}\nhello\n")
    with pytest.raises(ValueError, match="line 2 is not a row"):
        sums(read_rows(UsageOptions("jsonl", str(tmp_path / "u"))), ("key",))


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
            sums(read_rows(UsageOptions(kind, str(tmp_path / "missing"))), ("key",))


@pytest.mark.parametrize(
    "fields",
    [
        {"time": 5},
        {"model": ["m"]},
        {"key": 7},
        {"output": "12"},
        {"time": 0},
        {"cost": "free"},
        {"cost": ""},
        {"cost": 1e308},
        {"searches": [1]},
        {"other_models": 1},
        {"other_models": ["m"]},
        {"other_models": [{"model": {"n": 1}}]},
        {"other_models": [{"model": "n", "output": "x"}]},
    ],
)
def test_a_row_with_values_of_other_types_is_reported(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Found by fuzzing: the command ended with a traceback."""
    path = tmp_path / "u"
    path.write_text(json.dumps({"time": "2026-01-01T00:00:00Z", "model": "m", "output": 1} | fields) + "\n", "utf-8")
    with pytest.raises(ValueError, match="line 1 is not a row of usage"):
        sums(read_rows(UsageOptions("jsonl", str(path))), ("model", "key"))


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_the_end_of_a_running_response_replaces_its_row(kind: str, tmp_path: Path, booked: Callable[..., Any]) -> None:
    path = str(tmp_path / "u")
    file = JsonlFile(path, 1000, 9) if kind == "jsonl" else SqliteFile(path, 0)
    file.open()
    for number in (1, 2):
        file.write_missing([booked(number, ended="running")])
    file.write([booked(3)])
    for _ in range(2):
        file.write_missing([booked(1, ended="completed")])
    file.write_missing([booked(1, ended="running")])
    file.close()
    found = sums(read_rows(UsageOptions(kind, path, files=9)), ("ended",))
    assert {end: (each.exchanges, each.running) for (end,), each in found.items()} == {
        "completed": (2, 0),
        "running": (1, 1),
    }
