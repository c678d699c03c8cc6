"""The arguments of `python -m dragoman_proof fuzz`, and the file of its figures."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from dragoman_proof.fuzz.run import MISSING, Run, fuzz, is_installed
from dragoman_proof.fuzz.target import CHECKOUT, MODULES

ALL = "all"
RESULTS = CHECKOUT / "bench" / "results" / "fuzz.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("target", choices=(ALL, *MODULES), help="what is fuzzed")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="for each target (default %(default)s)")
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="a folder with a corpus for each target, which grows"
    )
    parser.add_argument("--finds", type=Path, default=Path("finds"), metavar="DIR", help="(default %(default)s)")
    parser.add_argument(
        "--keep", action="store_true", help="keep the smallest corpus that reaches as much, in the checkout"
    )
    parser.add_argument("--save", action="store_true", help="add the figures to bench/results/fuzz.json")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Fuzz. Returns 1 if a promise was broken, 2 if there is no fuzzer."""
    if not is_installed():
        print(MISSING, file=sys.stderr)
        return 2
    finds = 0
    for name in MODULES if options.target == ALL else (options.target,):
        folder = options.corpus / name if options.corpus is not None else None
        done = fuzz(name, options.seconds, folder, options.finds.absolute(), keeps=options.keep)
        print(done, flush=True)
        if options.save:
            save(done)
        finds += done.finds
    return 1 if finds else 0


def save(done: Run, path: Path = RESULTS) -> None:
    """Add the figures of a run to those of earlier ones."""
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    rows.append(
        {
            "date": datetime.now(UTC).date().isoformat(),
            "target": done.target,
            "cpu_seconds": round(done.cpu),
            "executions": done.executions,
            "edges": done.edges,
            "new_edges": done.edges - done.begun,
            "finds": done.finds,
            "inputs": done.inputs,
        }
    )
    path.write_text("[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n]\n", "utf-8")
