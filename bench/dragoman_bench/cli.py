"""The command line: `python -m dragoman_bench`."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dragoman_bench.delays import MISSING, available
from dragoman_bench.gateways import GATEWAYS, Direction, StartError
from dragoman_bench.gateways.environments import ENVIRONMENTS
from dragoman_bench.instructions import command as instructions
from dragoman_bench.machine_lock import Busy, machine_lock
from dragoman_bench.plan import LONGEST
from dragoman_bench.processes import run_with_priority
from dragoman_bench.report import terminal_summary
from dragoman_bench.rig import RigError
from dragoman_bench.runner import ALWAYS, Run, log
from dragoman_bench.save_run import gather, save
from dragoman_bench.scenarios import QUICK, SCENARIOS
from dragoman_bench.wire import DIALECTS, UPSTREAMS

DEFAULT_GATEWAYS = ("relay", "floor", "nginx", "dragoman")
DEFAULT_FOLDER = Path("bench/results")
_ROUNDS = 3
_LISTED = TypeVar("_LISTED")


class UsageError(ValueError):
    """An unknown or invalid word of the command line."""


def directions(text: str, upstreams: Iterable[str] = DIALECTS) -> tuple[Direction, ...]:
    """Parse `cross`, `same`, `all`, or a list like `messages-chat,chat-chat` (client first). Raises UsageError."""
    pairs = [(client, upstream) for upstream in upstreams for client in DIALECTS]
    if text == "all":
        return tuple(pairs)
    if text in ("cross", "same"):
        return tuple(pair for pair in pairs if (pair[0] != pair[1]) == (text == "cross"))
    known = {f"{client}-{upstream}": (client, upstream) for client, upstream in pairs}
    return tuple(_listed(text.split(","), known, "direction"))


def _listed(names: Iterable[str], known: Mapping[str, _LISTED], what: str) -> list[_LISTED]:
    out = []
    for name in dict.fromkeys(name.strip() for name in names):
        if name not in known:
            raise UsageError(f"no {what} is named {name!r}; known: {', '.join(known)}")
        out.append(known[name])
    return out


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dragoman_bench",
        description="Measure gateways side by side, under the same load, on this machine.",
        epilog="`dragoman bench` is the quick run unless --full is given. `peers list` lists other gateways that can "
        "be measured, `peers install NAME…` installs them. `instructions` counts instead of timing: see `instructions "
        "--help`.",
    )
    parser.add_argument("--quick", action="store_true", help="a few seconds for each scenario, one round")
    parser.add_argument(
        "--gateways",
        default=",".join(DEFAULT_GATEWAYS),
        metavar="A,B",
        help=f"in addition to {' and '.join(ALWAYS)}, which always run (default %(default)s)",
    )
    parser.add_argument(
        "--directions",
        default="cross",
        metavar="D",
        help="client-upstream as in messages-chat, several with commas; cross, same, all (default %(default)s)",
    )
    parser.add_argument("--scenarios", metavar="A,B", help=f"of {', '.join(SCENARIOS)} (default: all; quick: fewer)")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"median of N (default {_ROUNDS}, quick 1)")
    parser.add_argument("--day", type=float, metavar="SECONDS", help="length of the scenario mixed-day")
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="(default %(default)s)")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="run rig and gateways with real-time priority (SCHED_RR), for a machine that is in use",
    )
    return parser


def _chosen(args: argparse.Namespace) -> Run:
    gateways = _listed((*ALWAYS, *args.gateways.split(",")), GATEWAYS, "gateway")
    names = args.scenarios.split(",") if args.scenarios else QUICK if args.quick else SCENARIOS
    scenarios = [scenario.quick() if args.quick else scenario for scenario in _listed(names, SCENARIOS, "scenario")]
    if args.day is not None:
        if not 0 < args.day <= LONGEST / 4:
            raise UsageError(f"--day is {args.day:g}: above 0 and at most {LONGEST / 4:g} seconds")
        scenarios = [replace(each, seconds=args.day) if each.mode == "day" else each for each in scenarios]
    rounds = args.rounds if args.rounds is not None else 1 if args.quick else _ROUNDS
    if rounds < 1:
        raise UsageError(f"--rounds is {rounds}: at least 1")
    return Run(
        gateways,
        directions(args.directions),
        [scenario.fitting() for scenario in scenarios],
        rounds,
    )


async def _run(run: Run) -> None:
    """Run the measurements. SIGTERM ends them in order, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with machine_lock(log):
        await run.go()


def _instructions(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m dragoman_bench instructions")
    parser.add_argument(
        "--directions", default="all", metavar="D", help="as in the timed runs: a list, cross, same, all (default all)"
    )
    instructions.add_arguments(parser)
    args = parser.parse_args(words)
    return instructions.run(args, directions(args.directions, UPSTREAMS), log)


def _peers(words: Sequence[str]) -> int:
    if words == ["list"]:
        for name, environment in ENVIRONMENTS.items():
            state = environment.installed_version() if environment.missing() is None else "not installed"
            print(f"{name:20} {environment.source:5} {environment.package} {environment.version}: {state}")
        return 0
    if len(words) < 2 or words[0] != "install":
        raise UsageError("write `peers list` or `peers install NAME…`")
    failed = 0
    for environment in _listed(words[1:], ENVIRONMENTS, "peer"):
        log(f"installing {environment.package} {environment.version} into {environment.folder}")
        try:
            environment.install()
        except StartError as error:
            failed = 1
            log(str(error))
    return failed


def main(words: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0, 1 if the run failed or was interrupted (its results are saved), 2 for wrong usage."""
    words = sys.argv[1:] if words is None else list(words)
    try:
        if words[:1] == ["peers"]:
            return _peers(words[1:])
        if "instructions" in words[:2]:  # `dragoman bench` puts --quick before it
            return _instructions(words[words.index("instructions") + 1 :])
        return _measure(words)
    except UsageError as error:
        log(str(error))
        return 2


def _measure(words: Sequence[str]) -> int:
    args = _parser().parse_args(words)
    if not available():
        log(MISSING)
        return 2
    run = _chosen(args)
    if args.realtime:
        try:
            run_with_priority()
        except PermissionError:
            log("--realtime is not allowed to this user: run as root, or without it on a quiet machine")
            return 2
    status = 1
    try:
        with asyncio.Runner() as loop, suppress(KeyboardInterrupt, asyncio.CancelledError):
            loop.run(_run(run))
            status = 0
    except (Busy, RigError) as error:
        log(f"the run ended early: {error}")
    if status:
        log("the run is incomplete")
    _save(run, args, shlex.join(["python", "-m", "dragoman_bench", *words]))
    return status


def _save(run: Run, args: argparse.Namespace, command: str) -> None:
    results = gather(run, command, quick=args.quick)
    if not results.rows:
        return
    print(terminal_summary(results))
    try:
        log(f"the report is in {save(results, args.out)}")
    except OSError as error:
        raise UsageError(f"cannot write to {args.out}: {error.strerror}; name another folder with --out") from error
