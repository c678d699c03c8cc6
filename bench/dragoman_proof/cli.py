"""The command line of the proofs."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence

from dragoman import Dialect
from dragoman.dialects import CLIENT_DIALECTS
from dragoman_proof.chaos import catalogue as chaos
from dragoman_proof.controls import command as controls
from dragoman_proof.faults.matrix import TRANSPORTS, WAYS, Part
from dragoman_proof.faults.report import Totals, table
from dragoman_proof.faults.run import play
from dragoman_proof.fuzz import command as fuzz
from dragoman_proof.load import command as load
from dragoman_proof.soak import command as soak

ALL = "all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a proof. Returns 1 if anything violated a promise."""
    parser = argparse.ArgumentParser("python -m dragoman_proof", description=__doc__)
    proofs = parser.add_subparsers(required=True, metavar="PROOF")
    faults = proofs.add_parser("faults", help="broken streams and clients that leave, at every position of a stream")
    faults.add_argument("--directions", default=ALL, help="CLIENT-UPSTREAM, comma-separated (default %(default)s)")
    faults.add_argument("--transports", default=",".join(TRANSPORTS), help="(default %(default)s)")
    faults.add_argument("--ways", default=",".join(WAYS), help="of clients to their streams (default %(default)s)")
    faults.add_argument("--cases", type=int, default=0, metavar="N", help="a sample of N cases of each part; 0 = all")
    faults.add_argument("--at-once", type=int, default=48, metavar="N", help="requests at once (default %(default)s)")
    faults.add_argument("--seed", type=int, default=1, help="of the sample and of what is random in a fault")
    faults.set_defaults(run=_faults)
    loads = proofs.add_parser("load", help="clients that stop, leave, come and go, or are many, and their neighbours")
    load.add_arguments(loads)
    loads.set_defaults(run=load.run)
    environment = proofs.add_parser("chaos", help="faults of the machine, of stores, names, clocks and certificates")
    environment.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="default: all; `list` prints their names")
    environment.set_defaults(run=lambda options: chaos.main(options.scenarios))
    soak.add(proofs)
    controls.add(proofs)
    fuzz.add_arguments(proofs.add_parser("fuzz", help="coverage-guided fuzzing of what reads bytes from outside"))
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _faults(options: argparse.Namespace) -> int:
    totals, begun = Totals(), time.monotonic()
    for part in _parts(options):
        asyncio.run(play(part, totals, at_once=options.at_once))
        spent = time.monotonic() - begun
        print(f"{part}: {totals.cases} cases, {len(totals.violations)} violations, {spent:.0f} s", file=sys.stderr)
    print(table(totals))
    for violation in totals.violations[:100]:
        print(violation)
    return 1 if totals.violations else 0


def _parts(options: argparse.Namespace) -> list[Part]:
    chosen = options.directions.split(",")
    return [
        Part(client, upstream, transport, options.cases, options.seed, way)
        for way in options.ways.split(",")
        for transport in options.transports.split(",")
        for upstream in Dialect
        for client in CLIENT_DIALECTS
        if client in (WAYS[way] or CLIENT_DIALECTS)
        if chosen == [ALL] or f"{client}-{upstream}" in chosen
    ]
