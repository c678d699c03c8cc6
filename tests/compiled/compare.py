"""Compares what two builds make of the same mutated inputs.

    python tests/compiled/compare.py --with PYTHON --minutes 60

PYTHON is the interpreter of an environment in which the compiled wheel is installed; this interpreter is the other
side. Prints each difference and each defect, and exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

OUTPUTS = Path(__file__).with_name("outputs.py")
_BATCH = 20_000


def start(python: str, seed: int, first: int, cases: int) -> subprocess.Popen[str]:
    """Starts the cases in another process."""
    command = [python, str(OUTPUTS), "--seed", str(seed), "--first", str(first), "--cases", str(cases)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def differences(pythons: tuple[str, str], seed: int, first: int, cases: int) -> list[str]:
    """Returns the cases in which the interpreters' builds differ, or in which one has a defect."""
    processes = [start(python, seed, first, cases) for python in pythons]
    one, other = (process.communicate()[0].splitlines() for process in processes)
    found = [f"{mine} | {theirs}" for mine, theirs in zip(one, other, strict=False) if mine != theirs]
    found += [line for line in one if line.startswith("defect") and line in other]
    if not len(one) == len(other) == cases:
        found.append(f"{len(one)} and {len(other)} lines of {cases} cases")
    return found


def main() -> int:
    """Compares until the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--with", dest="other", required=True, metavar="PYTHON")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    end = time.monotonic() + args.minutes * 60
    first = found = 0
    while time.monotonic() < end:
        for difference in differences((sys.executable, args.other), args.seed, first, _BATCH):
            found += 1
            print(difference, flush=True)
        first += _BATCH
    print(f"{first} cases, {found} differences or defects")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
