"""The saved counts of a commit, and the comparison of new counts with them.

A row is named by its work and its direction, client first: `start messages-chat`. Rows are compared by their ratio to
the pass-through proxy in the same run and upstream dialect, since absolute counts depend on the build of Python and of
the C libraries. A row may grow by `GROWTH`; a row that may grow further is listed in the changelog with the ratio that
it may reach, in an entry of the section "Unreleased":

    - Stop sequences are cut in the gateway: `start messages-chat` 1.72 ×.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragoman_bench.machine import Machine

SCHEMA = 1
GROWTH = 0.03
"""Share by which a row may grow; repeated measurements differ by less than a third of it."""
_PACKAGES = ("aiohttp", "httptools", "orjson", "uvloop")
_SECTION = re.compile(r"^## Unreleased$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LISTED = re.compile(r"`(\w+ \w+-\w+)`\s+(\d+(?:\.\d+)?)\s+×")


@dataclass(frozen=True, slots=True)
class Row:
    """Instructions of the gateway and of the references. Some rows have no `floor`."""

    instructions: int
    passed: int
    floor: int | None = None

    @property
    def ratio(self) -> float:
        """The ratio to the pass-through proxy."""
        return self.instructions / self.passed

    @property
    def floor_ratio(self) -> float | None:
        """The ratio to the bare translator, or None."""
        return self.instructions / self.floor if self.floor else None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a commit by name, and the software that they were counted with."""

    commit: str
    made: str
    python: str
    architecture: str
    packages: Mapping[str, str]
    rows: Mapping[str, Row]

    @classmethod
    def here(cls, rows: Mapping[str, Row]) -> Table:
        """Return a table of this checkout and this interpreter."""
        machine = Machine.here()
        packages = {name: machine.packages.get(name, "") for name in _PACKAGES}
        made = datetime.now(UTC).strftime("%Y-%m-%d")
        return cls(machine.commit, made, machine.python, platform.machine(), packages, rows)

    def save(self, path: Path) -> None:
        """Write the file: sorted, one line for each row. Raises OSError."""
        head: dict[str, Any] = {
            "schema": SCHEMA,
            "commit": self.commit,
            "made": self.made,
            "python": self.python,
            "architecture": self.architecture,
            "packages": dict(sorted(self.packages.items())),
        }
        lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
        rows = [f"  {json.dumps(name)}: {json.dumps(_as_data(row))}" for name, row in sorted(self.rows.items())]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["{", *lines, ' "rows": {', ",\n".join(rows), " }", "}", ""]))


def _as_data(row: Row) -> dict[str, Any]:
    data = {"instructions": row.instructions, "pass": row.passed, "ratio": round(row.ratio, 4)}
    return data if row.floor is None else {**data, "floor": row.floor}


def load(path: Path) -> Table:
    """Read a file of `Table.save`. Raises OSError, and ValueError for another version."""
    data = json.loads(path.read_text())
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {data.get('schema')}; this version reads {SCHEMA}: save it again")
    rows = {name: Row(row["instructions"], row["pass"], row.get("floor")) for name, row in data["rows"].items()}
    return Table(data["commit"], data["made"], data["python"], data["architecture"], data["packages"], rows)


def other_interpreter(saved: Table, new: Table) -> str:
    """Return how the machine's interpreter differs, or an empty string: ratios of two interpreters differ too."""
    pairs = ((saved.python.rpartition(".")[0], new.python.rpartition(".")[0]), (saved.architecture, new.architecture))
    return "; ".join(f"saved with {was}, here {now}" for was, now in pairs if was != now)


def other_packages(saved: Table, new: Table) -> str:
    """Return how the packages differ that the references or the gateway run on, or an empty string."""
    names = sorted({*saved.packages, *new.packages})
    return "; ".join(
        f"{name} was {saved.packages.get(name) or 'missing'}, is {new.packages.get(name) or 'missing'}"
        for name in names
        if saved.packages.get(name) != new.packages.get(name)
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows by name, as lines of text: `grown` ones fail the check, `listed` ones grew as the changelog states."""

    grown: dict[str, str] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    shrunk: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    """Rows that are not in the saved table."""


def compare(saved: Mapping[str, Row], new: Mapping[str, Row], allowed: Mapping[str, float]) -> Comparison:
    """Compare the rows of `new` with those of `saved`. `allowed` maps names to the ratios that they may reach."""
    out = Comparison()
    for name, row in sorted(new.items()):
        if name not in saved:
            out.new.append(name)
            continue
        was = saved[name].ratio
        line = f"{name}: {was:.3f} × → {row.ratio:.3f} × ({row.ratio / was - 1:+.1%})"
        if row.ratio > was * (1 + GROWTH):
            limit = allowed.get(name, 0.0) * (1 + GROWTH)
            (out.listed if row.ratio <= limit else out.grown)[name] = line
        elif row.ratio < was * (1 - GROWTH):
            out.shrunk[name] = line
    return out


def listed(changelog: str) -> dict[str, float]:
    """Return the rows that the section "Unreleased" of a changelog lists, with the ratios that they may reach."""
    section = _SECTION.search(changelog)
    return {name: float(ratio) for name, ratio in _LISTED.findall(section[1])} if section else {}
