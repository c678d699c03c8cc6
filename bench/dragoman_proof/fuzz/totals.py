"""The figures of all runs of fuzzing, added up for each target, and the row that states them in the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from dragoman_proof.fuzz.run import Run
from dragoman_proof.fuzz.target import CHECKOUT

RESULTS: Final = CHECKOUT / "bench" / "results" / "fuzz.json"
PAGE: Final = CHECKOUT / "docs" / "reference" / "reliability.md"
_ROW: Final = re.compile(r"^(\| What reads bytes from outside is fuzzed[^|]*\|)[^|]*\|[^,|]*", re.MULTILINE)


@dataclass(slots=True)
class Total:
    """The sums of all runs of one target.

    `edges` is what the last run reached: the code changes between runs. `quiet_seconds` is the CPU time since a run
    that found a new edge.
    """

    target: str
    date: str = ""
    runs: int = 0
    cpu_seconds: int = 0
    executions: int = 0
    edges: int = 0
    finds: int = 0
    inputs: int = 0
    quiet_seconds: int = 0

    def add(self, done: Run) -> None:
        """Add a run of today."""
        seconds = round(done.cpu)
        self.date = datetime.now(UTC).date().isoformat()
        self.runs += 1
        self.cpu_seconds += seconds
        self.executions += done.executions
        self.finds += done.finds
        self.edges, self.inputs = done.edges, done.inputs
        self.quiet_seconds = self.quiet_seconds + seconds if done.edges <= done.begun else 0


def read(path: Path = RESULTS) -> list[Total]:
    """Return the totals of a file; none if it does not exist."""
    return [Total(**row) for row in json.loads(path.read_text("utf-8"))] if path.exists() else []


def save(done: Run, path: Path = RESULTS, page: Path = PAGE) -> None:
    """Add the figures of a run to those of its target, and write the sums to the page."""
    totals = read(path)
    if (total := next((each for each in totals if each.target == done.target), None)) is None:
        totals.append(total := Total(done.target))
    total.add(done)
    path.write_text("[\n" + ",\n".join(f"  {json.dumps(asdict(each))}" for each in totals) + "\n]\n", "utf-8")
    page.write_text(_ROW.sub(rf"\1 {figure(totals)} | {total.date}", page.read_text("utf-8")), "utf-8")


def figure(totals: Sequence[Total]) -> str:
    """Return the sums over all targets, as the page states them."""
    executions, finds = sum(each.executions for each in totals), sum(each.finds for each in totals)
    hours = sum(each.cpu_seconds for each in totals) / 3600
    return (
        f"{len(totals)} targets, {executions:,} executions in {hours:.2f} hours of CPU; {finds} inputs found, repaired"
    )
