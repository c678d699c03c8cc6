"""The report of a soak: its picture, its figures as JSON, and a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Final

from dragoman_bench.charts import Panel, Tone, over_time
from dragoman_bench.machine import Machine
from dragoman_bench.results import fresh_folder, now
from dragoman_proof.soak.flatness import Growth
from dragoman_proof.soak.run import Run
from dragoman_proof.soak.samples import Process, Sample

_MIB: Final = 2**20
_SHOWN: Final = 100
_BOOKED: Final = ("received", "unsent", "unanswered", "counted", "tokens")
_PAGE: Final = """# Soak of {day}

`{command}`

- made: {made}
- machine: {machine}; commit {commit}
- load: {requests:,} requests of the mixed day and {faults:,} streams with faults in {minutes:g} minutes
- disturbed: {kills} kills of a worker, {reloads} reloads; {cut} calls were cut by a kill
- usage: {rows:,} rows ({ended}); {received:,} requests received by upstreams; {unsent} rows `lost` of requests
  that were killed before they were sent; {unanswered} of requests that no upstream answered in time; {counted:,} rows
  compared with the simulator's ledger
- clients and upstreams: their process stood still for {late:.1f} s at most; what is longer than the gateway's timeouts
  (10 s) makes it give up, and such violations are no defect
- violations: {violations}

![The gateway over time](soak.svg)

## Growth

The rule is in `bench/dragoman_proof/soak/flatness.py`: after the first quarter of an hour of a process, the rise of a
Theil-Sen line over the rest of its time. Memory is what the process shares with no other one.

| series | minutes judged | median | rise | share | |
| --- | ---: | ---: | ---: | ---: | --- |
{growths}
"""


def save(run: Run, growths: Sequence[Growth], command: str, folder: Path) -> Path:
    """Write the report into a new folder below `folder`, and return its path. Raises OSError."""
    machine, made = Machine.here(), now()
    place = fresh_folder(folder, made, machine)
    data = {
        "made": made,
        "command": command,
        "machine": asdict(machine),
        "plan": asdict(run.plan),
        **{name: getattr(run, name) for name in ("kills", "reloads", "requests", "faults", "cut", "skipped", "late")},
        "ended": run.booked.ended,
        "booked": {
            name: getattr(run.booked, name) for name in ("received", "unsent", "unanswered", "counted", "tokens")
        },
        "violations": run.violations,
        "growths": [{**asdict(each), "share": each.share, "is_flat": each.is_flat} for each in growths],
        "samples": [asdict(sample) for sample in run.samples],
    }
    (place / "results.json").write_text(json.dumps(data, separators=(",", ":")).replace('{"at_s"', '\n{"at_s"') + "\n")
    if run.samples:
        (place / "soak.svg").write_text(picture(run))
    (place / "README.md").write_text(page(run, growths, command, made, machine))
    return place


def page(run: Run, growths: Sequence[Growth], command: str, made: str, machine: Machine) -> str:
    """Return the page of a run."""
    booked = run.booked
    return _PAGE.format(
        day=made[:10],
        command=command,
        made=made,
        machine=machine,
        commit=machine.commit,
        requests=run.requests,
        faults=run.faults,
        minutes=run.plan.seconds / 60,
        kills=len(run.kills),
        reloads=len(run.reloads),
        cut=run.cut,
        rows=booked.ended.total(),
        unanswered=booked.unanswered,
        late=run.late,
        ended=", ".join(f"{count:,} {how}" for how, count in booked.ended.most_common()),
        received=booked.received,
        unsent=booked.unsent,
        counted=booked.counted,
        violations=len(run.violations),
        growths="\n".join(map(row, growths)),
    )


def row(growth: Growth) -> str:
    """Return a growth as a row of the table."""
    size, unit = (1.0, "") if growth.counts else (_MIB, " MiB")
    verdict = "flat" if growth.is_flat else "**grows**"
    figures = f"{growth.middle / size:.1f}{unit} | {growth.rise / size:+.2f}{unit} | {growth.share:+.1%}"
    return f"| {growth.series} | {growth.seconds / 60:.0f} | {figures} | {verdict} |"


def picture(run: Run) -> str:
    """Return the samples as lines over time."""
    tones: dict[str, Tone] = {"worker 1": "own", "worker 2": "other", "supervisor": "bare"}
    memory = {name: _line(run.samples, _memory(name)) for name in tones}
    panels = [
        Panel("own memory, MiB", memory, tones),
        _panel("PSS of all, MiB", run.samples, lambda sample: _sum(sample, "pss", lambda _: True) / _MIB),
        _panel("Redis, MiB", run.samples, lambda sample: sample.redis / _MIB),
        _panel("descriptors of all", run.samples, lambda sample: _sum(sample, "descriptors", lambda _: True)),
        *(
            _panel(label, [each for each in run.samples if name in each.metrics], _metric(name))
            for label, name in (
                ("tasks", "tasks"),
                ("open requests", "open_requests"),
                ("longest lag, s", "lag_max_s"),
                ("idle and busy upstreams", "upstream_connections"),
            )
        ),
        Panel("requests per s", {"requests": _rate(run.samples)}, {"requests": "own"}),
    ]
    kills, reloads = len(run.kills), len(run.reloads)
    title = f"Soak: {run.plan.seconds / 60:g} minutes, {run.requests + run.faults:,} requests"
    return over_time(
        title, f"{kills} kills of worker 2, {reloads} reloads of both", [p for p in panels if any(p.lines.values())]
    )


def _memory(name: str) -> Callable[[Sample], float]:
    return lambda sample: _sum(sample, "own", lambda each: each.name == name) / _MIB


def _metric(name: str) -> Callable[[Sample], float]:
    return lambda sample: sample.metrics[name]


def _sum(sample: Sample, figure: str, chosen: Callable[[Process], bool]) -> float:
    return float(sum(getattr(each, figure) for each in sample.processes if chosen(each)))


def _line(samples: Sequence[Sample], value: Callable[[Sample], float]) -> list[tuple[float, float]]:
    return [(sample.at_s, value(sample)) for sample in samples]


def _panel(label: str, samples: Sequence[Sample], value: Callable[[Sample], float]) -> Panel:
    return Panel(label, {"all": _line(samples, value)}, {"all": "own"})


def _rate(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return the ended requests per second; a killed process takes its counts with it."""
    counted = [(each.at_s, each.metrics["requests"]) for each in samples if "requests" in each.metrics]
    return [
        (at, max(0.0, (new - old) / (at - before))) for (before, old), (at, new) in pairwise(counted) if at > before
    ]
