"""Samples of a gateway: what the kernel and `/metrics` state of it at a moment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dragoman_bench.processes import cpu_ns, memory_bytes, resident_bytes
from dragoman_proof.soak.gateway import Life

_LINE: Final = re.compile(r"^(dragoman_\w+)(?:\{.*\})? (\S+)", re.MULTILINE)
GAUGES: Final = {
    "open_requests": "dragoman_open_requests",
    "tasks": "dragoman_event_loop_tasks",
    "lag_max_s": "dragoman_event_loop_lag_max_seconds",
    "requests": "dragoman_requests_total",
    "restarts": "dragoman_worker_restarts_total",
    "upstream_connections": "dragoman_upstream_connections",
}
"""Name in a sample → the metric, of all labels together."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process: `own` is the memory that it shares with no other one, in bytes."""

    name: str
    pid: int
    age_s: float
    own: int
    pss: int
    resident: int
    descriptors: int
    threads: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The gateway at a moment: seconds since the begin, its processes, its metrics, and the memory of its Redis."""

    at_s: float
    processes: list[Process]
    metrics: dict[str, float] = field(default_factory=dict)
    redis: int = 0


def process(life: Life, now: float) -> Process | None:
    """Return the figures of a process, or None if it has ended."""
    pid = life.pid
    with suppress(OSError):
        if _begin_of(pid) > life.begun:  # another process, or a thread of one, has the number now
            return None
        own = memory_bytes([pid], "Anonymous")
        threads = int(re.findall(r"Threads:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0])
        descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        figures = (own, memory_bytes([pid]), resident_bytes([pid]), descriptors, threads, cpu_ns([pid]))
        return Process(life.name, pid, now - life.begun, *figures) if own else None
    return None


def _begin_of(pid: int) -> float:
    """Return when a process began, in seconds of the monotonic clock."""
    return float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def metrics(page: str) -> dict[str, float]:
    """Return the figures of a page of `/metrics`."""
    sums: dict[str, float] = {}
    for name, value in _LINE.findall(page):
        sums[name] = sums.get(name, 0.0) + float(value)
    return {own: sums[name] for own, name in GAUGES.items() if name in sums}
