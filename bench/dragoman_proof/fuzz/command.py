"""The arguments of `python -m dragoman_proof fuzz`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman_proof.fuzz.run import MISSING, fuzz, is_installed
from dragoman_proof.fuzz.target import MODULES
from dragoman_proof.fuzz.totals import save

ALL = "all"


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
    parser.add_argument(
        "--save", action="store_true", help="add the figures to bench/results/fuzz.json and reliability.md"
    )
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
