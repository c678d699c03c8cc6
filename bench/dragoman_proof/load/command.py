"""`python -m dragoman_proof load`: runs the scenarios, and writes what they found."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from dragoman_proof.load.churn import churn
from dragoman_proof.load.leaving import leaving
from dragoman_proof.load.neighbours import neighbours
from dragoman_proof.load.noise import LOADS
from dragoman_proof.load.open_streams import open_streams
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.reading import slow, stopped
from dragoman_proof.load.report import lines, save
from dragoman_proof.load.sizes import SAMPLE, Size, TooFewFiles
from dragoman_proof.load.stored_chunks import stored_chunks

SCENARIOS: dict[str, Callable[[Size], Awaitable[Outcome]]] = {
    "stopped": stopped,
    "slow": slow,
    "leaving": leaving,
    "churn": churn,
    "open-1": partial(open_streams, workers=1),
    "open-2": partial(open_streams, workers=2),
    "neighbours": neighbours,
    **{f"stored-{kind}": partial(stored_chunks, kind=kind) for kind in ("memory", "sqlite", "redis")},
}
FOLDER = Path("bench/results/load")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--scenarios", default="all", metavar="A,B", help=f"of {', '.join(SCENARIOS)} (default all)")
    parser.add_argument("--streams", type=int, metavar="N", help=f"of open-1 and open-2 (default {Size().open})")
    parser.add_argument(
        "--detached", type=int, default=0, metavar="N", help="of these streams, runs whose client has left (default 0)"
    )
    parser.add_argument("--loads", default="", metavar="A,B", help=f"of neighbours: {', '.join(LOADS)} (default all)")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"of neighbours (default {Size().rounds})")
    parser.add_argument("--sample", action="store_true", help="small numbers, and counts only: what CI runs")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="(default %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the scenarios one after another. Returns 1 if a check did not hold, and 2 if one cannot run here."""
    names = list(SCENARIOS) if options.scenarios == "all" else options.scenarios.split(",")
    if unknown := [name for name in names if name not in SCENARIOS]:
        print(f"no scenario is named {unknown[0]!r}; known: {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    size = SAMPLE if options.sample else Size()
    if options.streams is not None:
        size = replace(size, open=options.streams)
    size = replace(size, detached=options.detached)
    loads = tuple(filter(None, options.loads.split(",")))
    if unknown := [name for name in loads if name not in LOADS]:
        print(f"no load is named {unknown[0]!r}; known: {', '.join(LOADS)}", file=sys.stderr)
        return 2
    size = replace(size, loads=loads, rounds=options.rounds or size.rounds)
    outcomes: list[Outcome] = []
    for name in names:
        try:
            outcome = asyncio.run(_run(name, size))
        except TooFewFiles as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        outcomes.append(outcome)
        print("\n".join(lines(outcome)), flush=True)
    if not options.sample:
        print(f"written to {save(outcomes, options.out)}")
    return 0 if all(outcome.held for outcome in outcomes) else 1


async def _run(name: str, size: Size) -> Outcome:
    return await SCENARIOS[name](size)
