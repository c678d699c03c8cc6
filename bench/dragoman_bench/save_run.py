"""Turns a run into results, and writes them with the report."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from dragoman_bench.machine import Machine
from dragoman_bench.report import charts, report
from dragoman_bench.results import Command, Results, Row, Subject, fresh_folder, now
from dragoman_bench.runner import BASELINE, Run


def gather(run: Run, command: str, *, quick: bool) -> Results:
    """Return the results of a run so far, with a description of the machine."""
    subjects = []
    for gateway in run.gateways:
        missing = gateway.missing() or ""
        commands = [
            Command(client, upstream, started, config)
            for (name, (client, upstream)), (started, config) in run.started.items()
            if name == gateway.name
        ]
        version = "" if missing else gateway.version()
        subjects.append(Subject(gateway.name, gateway.kind, gateway.about, gateway.note, version, missing, commands))
    rows = [
        Row(outcome.gateway, *outcome.direction, outcome.scenario, outcome.figures, outcome.rounds, outcome.missing)
        for outcome in run.outcomes()
    ]
    return Results(
        now(),
        command,
        quick,
        run.rounds,
        BASELINE,
        Machine.here(),
        [scenario.as_data() for scenario in run.scenarios],
        subjects,
        rows,
    )


def save(results: Results, folder: Path) -> Path:
    """Write results.json, README.md and the charts into a new folder below `folder`.

    Returns its path. Raises OSError.
    """
    place = fresh_folder(folder, results.made, results.machine, "quick" if results.quick else "")
    (place / "results.json").write_text(json.dumps(asdict(results), indent=1, ensure_ascii=False) + "\n")
    drawn = charts(results)
    for name, svg in drawn.items():
        (place / name).write_text(svg)
    (place / "README.md").write_text(report(results, drawn))
    return place
