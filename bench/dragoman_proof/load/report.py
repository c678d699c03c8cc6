"""The outcomes of the scenarios as lines, as JSON, as a page and as a picture."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman_bench.charts import Bar, bars
from dragoman_bench.machine import Machine
from dragoman_bench.results import fresh_folder, now
from dragoman_proof.load.outcome import Outcome

PICTURE = "memory.svg"


def lines(outcome: Outcome) -> list[str]:
    """Return an outcome as lines of text."""
    loads = " to ".join(map(str, outcome.loads))
    head = f"{outcome.scenario}: {'holds' if outcome.held else 'DOES NOT HOLD'} ({outcome.about}; load average {loads})"
    checks = [f"  {'ok' if check.held else 'NOT'} {check.promise}: {check.found}" for check in outcome.checks]
    return [head, *checks, *(f"  note: {remark}" for remark in outcome.remarks)]


def save(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write results.json, README.md and the picture into a new folder below `folder`. Returns its path."""
    made, machine = now(), Machine.here()
    place = fresh_folder(folder, made, machine)
    command = shlex.join(["python", "-m", "dragoman_proof", *sys.argv[1:]])
    data = {"made": made, "command": command, "machine": asdict(machine), "scenarios": [asdict(o) for o in outcomes]}
    (place / "results.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    drawn = picture(outcomes)
    if drawn:
        (place / PICTURE).write_text(drawn)
    (place / "README.md").write_text(page(outcomes, made, machine, command, drawn=bool(drawn)))
    return place


def page(outcomes: Sequence[Outcome], made: str, machine: Machine, command: str, *, drawn: bool) -> str:
    """Return the page."""
    text = [
        f"# Load of {made[:10]}\n\n`{command}`\n",
        f"- made: {made}\n- machine: {machine}\n- commit {machine.commit}\n",
    ]
    if drawn:
        text.append(f"![memory of a worker]({PICTURE})\n")
    for outcome in outcomes:
        verdict = "holds" if outcome.held else "does not hold"
        text.append(f"## {outcome.scenario}: {verdict}\n\n{outcome.about[:1].upper()}{outcome.about[1:]}.")
        text.append(f"Load average {outcome.loads[0]} before, {outcome.loads[-1]} after.\n")
        text += [f"{remark}.\n" for remark in outcome.remarks]
        text.append("| promise | holds | found |\n| --- | --- | --- |")
        text += [
            f"| {check.promise} | {'yes' if check.held else '**no**'} | {check.found} |" for check in outcome.checks
        ]
        text.append("\n| figure | value |\n| --- | ---: |")
        text += [f"| `{name}` | {value} |" for name, value in _flat(outcome.figures)]
        text.append("")
    return "\n".join(text)


def picture(outcomes: Sequence[Outcome]) -> str:
    """Return bars of the heaviest worker's memory by open streams; empty without such a scenario."""
    rows = [
        Bar(
            f"{outcome.scenario}: {point['streams']:,} streams",
            megabytes,
            megabytes,
            megabytes,
            f"{megabytes:.0f} MB",
            "own",
        )
        for outcome in outcomes
        for point in outcome.figures.get("memory", ())
        for megabytes in [max(point["worker_bytes"]) / 1e6]
    ]
    return bars("Memory of the heaviest worker", "PSS in MB, by open streams", rows) if rows else ""


def _flat(figures: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            found += _flat(value, f"{before}{name}.")
        elif name != "memory":
            found.append((before + name, _shown(value)))
    return found


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
