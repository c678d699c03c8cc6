"""Results of a run as data: typed rows, and their JSON file with a version."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragoman_bench.machine import Machine

SCHEMA = 1
"""Version of results.json; `load` rejects others."""

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A gateway in a direction and a scenario: the median of its rounds, and all rounds.

    `missing` is the reason for a row without figures. A gateway that does not translate has its upstream's direction.
    """

    gateway: str
    client: str
    upstream: str
    scenario: str
    figures: Figures
    rounds: list[Figures] = field(default_factory=list)
    missing: str = ""

    @property
    def direction(self) -> str:
        """The direction, for display."""
        return f"{self.client}→{self.upstream}"

    def ratio(self, figure: str) -> float | None:
        """Return the ratio to the baseline in the same run, scenario and upstream dialect, or None."""
        value: float | None = (self.figures.get("ratio") or {}).get(figure)
        return value

    @property
    def kept_up(self) -> float:
        """The share of the chunks sent in the window that were received in it."""
        came, sent = self.figures.get("chunks_per_s"), self.figures.get("offered_per_s")
        return came / sent if came is not None and sent else 1.0


@dataclass(frozen=True, slots=True)
class Command:
    """The command that was run for a direction."""

    client: str
    upstream: str
    command: str
    config: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A selected gateway. `missing` is the reason if it was not measured; `commands` were run."""

    name: str
    kind: str
    about: str
    note: str
    version: str
    missing: str
    commands: list[Command] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Results:
    """A run. `made` is its end in UTC; `scenarios` are the parameters of the loads."""

    made: str
    command: str
    quick: bool
    rounds: int
    baseline: str
    machine: Machine
    scenarios: list[dict[str, Any]]
    gateways: list[Subject]
    rows: list[Row]
    schema: int = SCHEMA

    def of(self, scenario: str) -> list[Row]:
        """Return the rows of a scenario that have figures, in the order of the run."""
        return [row for row in self.rows if row.scenario == scenario and not row.missing]

    def subject(self, name: str) -> Subject:
        """Return a gateway by name. Raises KeyError."""
        for subject in self.gateways:
            if subject.name == name:
                return subject
        raise KeyError(name)


def load(path: Path) -> Results:
    """Read a results.json. Raises OSError, and ValueError for another version."""
    data = json.loads(path.read_text())
    if data.get("schema") != SCHEMA:
        raise ValueError(f"{path} has schema {data.get('schema')}; this version reads {SCHEMA}: make the run again")
    data["machine"] = Machine(**data["machine"])
    data["gateways"] = [
        Subject(**{**subject, "commands": [Command(**command) for command in subject["commands"]]})
        for subject in data["gateways"]
    ]
    data["rows"] = [Row(**row) for row in data["rows"]]
    return Results(**data)


def fresh_folder(folder: Path, made: str, machine: Machine, *more: str) -> Path:
    """Make a new folder below `folder`, named by the day and the commit. Raises OSError."""
    name = "-".join(part for part in (made[:10], machine.commit.rstrip("+"), *more) if part)
    number, place = 1, folder / name
    while place.exists():
        number += 1
        place = folder / f"{name}-{number}"
    place.mkdir(parents=True)
    return place


def now() -> str:
    """Return the time in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
