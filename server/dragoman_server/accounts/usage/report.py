"""Sums of booked usage, for `dragoman usage`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.wire import Json, json_loads
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import JSONL, UsageOptions
from dragoman_server.accounts.usage.row import COUNTS, cost_units

_BEGINNING = b'{"time"'
"""The beginning of every row of a JSONL file."""
COUNT_NAMES = tuple(name for name, _ in COUNTS)
GROUPS: dict[str, Callable[[Json], str]] = {
    "key": lambda row: row.get("key") or row.get("principal") or "",
    "model": lambda row: row.get("upstream_model") or row.get("model") or "",
    "provider": lambda row: row.get("provider") or "",
    "route": lambda row: row.get("route") or "",
    "client": lambda row: row.get("client_profile") or row.get("client") or "",
    "ended": lambda row: row.get("ended") or "",
    "day": lambda row: str(row.get("time", ""))[:10],
    "month": lambda row: str(row.get("time", ""))[:7],
}
"""Name of a grouping → the group of a row."""


@dataclass(slots=True)
class Sum:
    """The usage of one group. `estimated` and `partial` are the numbers of exchanges with such counts.

    `cost` is in billionths, `unpriced` the number of exchanges with tokens but without a price.
    """

    exchanges: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNT_NAMES, 0))
    cost: int = 0
    unpriced: int = 0
    estimated: int = 0
    partial: int = 0

    def add(self, row: Json) -> None:
        """Add a row."""
        self.exchanges += 1
        for name in COUNT_NAMES:
            self.counts[name] += row.get(name) or 0
        cost = cost_units(row.get("cost"))
        self.cost += cost or 0
        self.unpriced += cost is None and bool(row.get("input") or row.get("output"))
        self.estimated += bool(row.get("estimated"))
        self.partial += bool(row.get("partial"))

    def as_json(self) -> dict[str, Any]:
        """Return the sum for `--json`."""
        counts = {"exchanges": self.exchanges, **self.counts, "cost": self.cost / UNITS}
        return {**counts, "unpriced": self.unpriced, "estimated": self.estimated, "partial": self.partial}


def sums(rows: Iterable[Json], group: str, since: str = "") -> dict[str, Sum]:
    """Return the sums of rows by group, in the order of the groups. `since` is the first time, as rows state it."""
    found: dict[str, Sum] = {}
    name_of = GROUPS[group]
    for row in rows:
        if row.get("time", "") >= since:
            found.setdefault(name_of(row), Sum()).add(row)
    return dict(sorted(found.items()))


def read_rows(options: UsageOptions) -> Iterator[Json]:
    """Return the booked rows, of rotated files too. Raises OSError or ValueError."""
    if not any(map(os.path.exists, (options.file, f"{options.file}.1"))):
        raise FileNotFoundError(f"there is no {options.file} yet")
    return _jsonl_rows(options) if options.kind == JSONL else _sqlite_rows(options.file)


def _jsonl_rows(options: UsageOptions) -> Iterator[Json]:
    rotated = (f"{options.file}.{number}" for number in range(options.files, 0, -1))
    for path in filter(os.path.exists, (*rotated, options.file)):
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                row = _jsonl_row(line)
                if type(row) is dict:
                    yield row
                elif row is not None or not _is_cut(line):
                    raise ValueError(f"{path} line {number} is not a row of usage")


def _jsonl_row(line: bytes) -> Any:
    """Return the value of a line, or None if it is not JSON."""
    try:
        return json_loads(line)
    except ValueError:
        return None


def _is_cut(line: bytes) -> bool:
    """True for the beginning of a row: one that is written now, or that a killed process has not finished."""
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line.rstrip(b"\n"))


def _sqlite_rows(path: str) -> Iterator[Json]:
    try:
        # Not read-only: the transaction of a process that was killed has to be rolled back first.
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True)) as db:
            db.row_factory = sqlite3.Row
            for row in db.execute("SELECT * FROM usage"):
                found: dict[str, Any] = dict(row)
                if found["cost"] is not None:
                    found["cost"] /= UNITS
                yield found
    except sqlite3.Error as error:
        raise ValueError(f"{path}: {error}") from None
