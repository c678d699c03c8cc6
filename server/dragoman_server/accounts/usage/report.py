"""Sums of booked usage, for `dragoman usage`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.wire import Json, json_loads
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import JSONL, UsageOptions
from dragoman_server.accounts.usage.row import COUNTS, LOST, PROVISIONAL, cost_units
from dragoman_server.observability.exchange_record import RUNNING

_NEVER = "~"
"""Sorts behind all times."""
_BEGINNING = b'{"time"'
"""The beginning of every row of a JSONL file."""
COUNT_NAMES = tuple(name for name, _ in COUNTS)
_COUNTED = (*COUNT_NAMES, "searches", "cost")
_NUMBERS = (int, float)
_MOST = 1e15
"""More than any count or cost. Infinity cannot be summed."""
_TEXTS = (
    *("time", "key", "principal", "tag", "upstream_model", "model", "provider", "route", "service_tier", "speed"),
    *("client_profile", "client", "ended"),
)
GROUPS: dict[str, Callable[[Json], str]] = {
    "key": lambda row: row.get("key") or row.get("principal") or "",
    "tag": lambda row: row.get("tag") or "",
    "model": lambda row: row.get("upstream_model") or row.get("model") or "",
    "provider": lambda row: row.get("provider") or "",
    "route": lambda row: row.get("route") or "",
    "tier": lambda row: row.get("service_tier") or "",
    "speed": lambda row: row.get("speed") or "",
    "client": lambda row: row.get("client_profile") or row.get("client") or "",
    "ended": lambda row: row.get("ended") or "",
    "day": lambda row: str(row.get("time", ""))[:10],
    "month": lambda row: str(row.get("time", ""))[:7],
}
"""Name of a dimension → the group of a row in it."""
NOTES = ("unpriced", "estimated", "partial", "lost", "running")
"""The numbers of exchanges of a sum that have something to note."""
Groups = tuple[str, ...]
"""The groups of a row: one for each dimension."""


@dataclass(slots=True)
class Sum:
    """The usage of one group. `estimated` and `partial` are the numbers of exchanges with such counts.

    `lost` is the number of exchanges whose process was killed, `running` that of responses that their upstreams run and
    whose end was not read, `unpriced` that of exchanges with tokens but without a
    price. `cost` is in billionths. An exchange in which several models worked is one of the model that it was sent to;
    the others have only their counts and their cost.
    """

    exchanges: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNT_NAMES, 0))
    searches: int = 0
    cost: int = 0
    unpriced: int = 0
    estimated: int = 0
    partial: int = 0
    lost: int = 0
    running: int = 0

    def add(self, row: Json) -> None:
        """Add a row."""
        self.exchanges += 1
        self._count(row, 1)
        self.searches += row.get("searches") or 0
        self.unpriced += row.get("cost") is None and bool(row.get("input") or row.get("output"))
        self.estimated += bool(row.get("estimated"))
        self.partial += bool(row.get("partial"))
        self.lost += row.get("ended") == LOST
        self.running += row.get("ended") == RUNNING

    def add_part(self, part: Json) -> None:
        """Add the counts and the cost of one model of a row."""
        self._count(part, 1)

    def take_part(self, part: Json, row: Json) -> None:
        """Take away the counts and the cost of a row that belong to another model. A total may be unknown."""
        self._count({name: count for name, count in part.items() if row.get(name) is not None}, -1)

    def merge(self, other: Sum) -> None:
        """Add another sum."""
        for name in COUNT_NAMES:
            self.counts[name] += other.counts[name]
        for name in ("exchanges", "searches", "cost", *NOTES):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def _count(self, counts: Json, sign: int) -> None:
        for name in COUNT_NAMES:
            self.counts[name] += sign * (counts.get(name) or 0)
        self.cost += sign * (cost_units(counts.get("cost")) or 0)

    def as_json(self) -> dict[str, Any]:
        """Return the sum for `--json`."""
        counts = {"exchanges": self.exchanges, **self.counts, "searches": self.searches, "cost": self.cost / UNITS}
        return {**counts, **{name: getattr(self, name) for name in NOTES}}


def sums(rows: Iterable[Json], dimensions: Sequence[str]) -> dict[Groups, Sum]:
    """Return the sums of rows by the groups of these dimensions, in the order of the groups."""
    found: dict[Groups, Sum] = {}
    names = [GROUPS[dimension] for dimension in dimensions]
    model = dimensions.index("model") if "model" in dimensions else -1
    for row in rows:
        groups = tuple([name_of(row) for name_of in names])
        own = found.get(groups)
        if own is None:
            own = found[groups] = Sum()
        own.add(row)
        if model < 0 or not (parts := row.get("other_models")):
            continue
        for part in parts:
            own.take_part(part, row)
            other = (*groups[:model], part.get("model") or "", *groups[model + 1 :])
            found.setdefault(other, Sum()).add_part(part)
    return dict(sorted(found.items()))


def read_rows(options: UsageOptions, since: str = "", until: str = "", ended: Collection[str] = ()) -> Iterator[Json]:
    """Return the booked rows, of rotated files too. Raises OSError or ValueError.

    `since` is the first time, `until` the one before which rows end, both as rows state it; empty for no bound. With
    `ended`, only rows of exchanges that ended so are returned.
    """
    if not any(map(os.path.exists, (options.file, f"{options.file}.1"))):
        raise FileNotFoundError(f"there is no {options.file} yet")
    until = until or _NEVER
    rows: Iterator[Json]
    if options.kind == JSONL:
        rows = (row for row in _last_rows(_jsonl_rows(options)) if since <= row.get("time", "") < until)
    else:
        rows = _sqlite_rows(options.file, since, until)
    return (row for row in rows if row.get("ended") in ended) if ended else rows


def _last_rows(rows: Iterable[Json]) -> Iterator[Json]:
    """Return rows without the provisional ones that a later row replaces."""
    provisional: dict[str, Json] = {}
    for row in rows:
        given = row.get("id")
        if row.get("ended") in PROVISIONAL and type(given) is str:
            provisional.setdefault(given, row)
        else:
            if provisional and type(given) is str:
                provisional.pop(given, None)
            yield row
    yield from provisional.values()


def _jsonl_rows(options: UsageOptions) -> Iterator[Json]:
    rotated = (f"{options.file}.{number}" for number in range(options.files, 0, -1))
    for path in filter(os.path.exists, (*rotated, options.file)):
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                row = _jsonl_row(line)
                if type(row) is dict and _has_values_of_rows(row):
                    yield row
                elif row is not None or not _is_cut(line):
                    raise ValueError(f"{path} line {number} is not a row of usage")


def _jsonl_row(line: bytes) -> Any:
    """Return the value of a line, or None if it is not JSON."""
    try:
        return json_loads(line)
    except ValueError:
        return None


def _has_values_of_rows(row: Json) -> bool:
    """True if the values that are summed have the types that they are written with."""
    others = row.get("other_models") or ()
    if type(others) not in (list, tuple) or not all(type(part) is dict for part in others):
        return False
    texts = [row.get(name) for name in _TEXTS] + [part.get("model") for part in others]
    counts = [each.get(name) for each in (row, *others) for name in _COUNTED]
    return all(text is None or type(text) is str for text in texts) and all(map(_is_count, counts))


def _is_count(value: object) -> bool:
    return value is None or (type(value) in _NUMBERS and -_MOST <= value <= _MOST)  # type: ignore[operator]


def _is_cut(line: bytes) -> bool:
    """True for the beginning of a row: one that is written now, or that a killed process has not finished."""
    return line.startswith(_BEGINNING) or _BEGINNING.startswith(line.rstrip(b"\n"))


def _sqlite_rows(path: str, since: str, until: str) -> Iterator[Json]:
    """Return the rows of a file as those of JSON lines. A file of an earlier version stays as it is."""
    try:
        # Not read-only: the transaction of a process that was killed has to be rolled back first.
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True)) as db:
            db.row_factory = sqlite3.Row
            for row in db.execute("SELECT * FROM usage WHERE time >= ? AND time < ?", (since, until)):
                found: dict[str, Any] = dict(row)
                if found["cost"] is not None:
                    found["cost"] /= UNITS
                others = found.get("other_models")
                found["other_models"] = json_loads(others) if others is not None else []
                found["estimated"] = (found.get("estimated") or "").split()
                yield found
    except sqlite3.Error as error:
        raise ValueError(f"{path}: {error}") from None
