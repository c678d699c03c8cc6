"""`python -m dragoman_proof soak`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from dragoman_proof.soak.flatness import QUARTER, judge
from dragoman_proof.soak.report import save
from dragoman_proof.soak.run import Plan, soak

_RESULTS: Final = Path(__file__).parents[2] / "results" / "soak"


def add(proofs: Any) -> None:
    """Add the command to the proofs."""
    parser = proofs.add_parser("soak", help="a mixed day for hours, with faults, kills of workers and reloads")
    parser.add_argument("--minutes", type=float, default=150.0, help="(default %(default)g)")
    parser.add_argument("--rate", type=float, default=15.0, help="requests per second (default %(default)g)")
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="MINUTES", help="(default %(default)g)")
    parser.add_argument("--reload-every", type=float, default=50.0, metavar="MINUTES", help="(default %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the calls and the faults")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder for the results")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    seconds, reload_every = options.minutes * 60, options.reload_every * 60
    sample_every = min(10.0, seconds / 30)
    plan = Plan(seconds, options.rate, options.kill_every * 60, reload_every, sample_every, options.seed)
    run = asyncio.run(soak(plan))
    growths = judge(run.samples, min(QUARTER, min(seconds, reload_every) / 3))
    words = f"--minutes {options.minutes:g} --rate {options.rate:g} --kill-every {options.kill_every:g}"
    words += f" --reload-every {options.reload_every:g} --seed {options.seed}"
    place = save(run, growths, f"python -m dragoman_proof soak {words}", options.out)
    print((place / "README.md").read_text("utf-8"))
    print("\n".join(run.violations[:100]))
    print(place)
    return 1 if run.violations or not all(each.is_flat for each in growths) else 0
