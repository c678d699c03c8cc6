"""`python -m dragoman_proof controls`."""

from __future__ import annotations

import argparse
from typing import Any

from dragoman_proof.controls.edits import CONTROLS
from dragoman_proof.controls.run import try_all


def add(proofs: Any) -> None:
    """Add the command to the proofs."""
    parser = proofs.add_parser("controls", help="the threat model's tests fail without the control that they name")
    parser.add_argument("--only", default="", metavar="WORD", help="controls whose name has this word")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    chosen = [control for control in CONTROLS if options.only in control.name]
    print("| control | with it | without it | test |\n| --- | --- | --- | --- |")
    proven, unproven = 0, []
    for verdict in try_all(chosen):
        control = verdict.control
        with_it = "passes" if verdict.passes else "**fails**"
        without = "fails" if verdict.fails else "**passes**"
        print(f"| {control.name} | {with_it} | {without} | `{control.test}` |", flush=True)
        proven += verdict.holds
        unproven += [] if verdict.holds else [verdict]
    print(f"\n{proven} of {len(chosen)} controls are proven by their tests")
    for each in unproven:
        print(f"\n{each.control.name}:\n{each.output}")
    return 1 if unproven or not chosen else 0
