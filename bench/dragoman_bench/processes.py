"""CPU time and memory of process trees, as Linux counts them, and assignment of cores."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_SCHEDULED = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h: all threads of a process, dead ones included, to the nanosecond."""
_LARGEST_TREE = 512


def run_when_idle() -> None:
    """Let this process run only while no other one wants its core, so that it delays none of them."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def tree(root: int) -> list[int]:
    """Return `root` and its running descendants; an empty list for 0, which means no process."""
    found = [root] if root else []
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        if len(found) > _LARGEST_TREE:
            raise RuntimeError(f"process {root} has more than {_LARGEST_TREE} descendants: start it with fewer workers")
    return found


def alive(pid: int) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def cpu_ns(pids: Iterable[int]) -> int:
    """Return the CPU time of processes in nanoseconds, by the kernel's per-process clock. Ended ones count 0.

    It takes one system call each; reading /proc for every thread takes five.
    """
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
    return total


def memory_bytes(pids: Iterable[int], kind: str = "Pss") -> int:
    """Return the memory of processes in bytes. Ended ones count 0.

    `Pss` divides pages by the number of processes that map them, so that a tree's sum is right and growth is exact;
    `Rss` is shown by most tools, and does not depend on other processes of the same interpreter.
    Raises PermissionError for another user's process.
    """
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(f"{kind}:"):
                    total += int(line.split()[1]) * 1024
                    break
    return total


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of processes in bytes: less exact than `memory_bytes`, and cheap enough to sample."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return total


def open_files_limit() -> int:
    """Raise this process's limit of open files to its maximum, and return it. Children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def divided_cores() -> tuple[int | None, frozenset[int]]:
    """Return the gateway's core (the last allowed one, or None if there is only one) and the other cores."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, frozenset(allowed)
    return allowed[-1], frozenset(allowed[:-1])


def pin(cores: frozenset[int]) -> None:
    """Run this process and its future children on these cores."""
    os.sched_setaffinity(0, cores)


def run_with_priority() -> None:
    """Give this process and its future children real-time priority (SCHED_RR), against noise of a busy machine.

    Nice values do not suffice: they do not interrupt running processes. Raises PermissionError.
    """
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
