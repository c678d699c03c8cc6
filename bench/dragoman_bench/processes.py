"""What a tree of processes takes, as Linux counts it: CPU time, memory; and which cores belong to whom."""

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


def tree(root: int) -> list[int]:
    """`root` and its descendants that live; empty for 0, which stands for no process."""
    found = [root] if root else []
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        if len(found) > _LARGEST_TREE:
            raise RuntimeError(f"process {root} has more than {_LARGEST_TREE} descendants: start it with fewer workers")
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def cpu_ns(pids: Iterable[int]) -> int:
    """CPU nanoseconds that these processes have used, by the kernel's per-process clock; those gone count nothing.

    One system call each, where reading /proc for every thread takes five.
    """
    total = 0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime_ns((~pid << 3) | _SCHEDULED)
    return total


def memory_bytes(pids: Iterable[int], kind: str = "Pss") -> int:
    """Memory of these processes; those gone count nothing.

    `Pss` divides pages by the number of processes that map them, so that a tree's sum is right and growth is exact;
    `Rss` is what tools show, and does not depend on who else runs the same interpreter.
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


def open_files_limit() -> int:
    """Raise this process's limit of open files as far as it may, and return it. Children inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def divided_cores() -> tuple[int | None, frozenset[int]]:
    """The gateway's core (the last that this process may use) and those for the rest; no core if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, frozenset(allowed)
    return allowed[-1], frozenset(allowed[:-1])


def pin(cores: frozenset[int]) -> None:
    """Run this process, and what it starts from now on, on these cores."""
    os.sched_setaffinity(0, cores)


def go_first() -> None:
    """Let this process, and what it starts from now on, run before all others (SCHED_RR): a busy machine disturbs less.

    Nice values would not do: they do not interrupt what runs. Raises PermissionError where the user may not.
    """
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
