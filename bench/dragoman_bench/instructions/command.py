"""The command `python -m dragoman_bench instructions`: count, print a table, save it, or compare with the saved one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dragoman_bench.gateways import Direction
from dragoman_bench.instructions import callgrind, saved
from dragoman_bench.instructions.measure import FLOOR, GATEWAY, PASS, ROWS, Counts, Subject, measure
from dragoman_bench.instructions.saved import GROWTH, Comparison, Row
from dragoman_bench.tables import Table
from dragoman_bench.wire import DIALECTS

FILE = Path("bench/results/instructions.json")
CHANGELOG = Path("docs/changelog.md")
_ABOUT = """\
Count the user-space instructions of the gateway under callgrind: for a chunk, a stream start, a whole reply and an
agent's request, in each direction, beside an aiohttp proxy that does not translate and a bare translator."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments, except --directions."""
    parser.description = _ABOUT
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="interpreter of the tree to measure")
    parser.add_argument("--against", metavar="PATH", help="interpreter of another tree, to divide by its counts")
    parser.add_argument("--no-floor", action="store_true", help="without the bare translator")
    parser.add_argument("--save", action="store_true", help="write the file of the saved counts")
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"exit with 1 if a ratio to the proxy exceeds the saved one by more than {GROWTH:.0%}% and the changelog "
        "does not list the row",
    )
    parser.add_argument(
        "--file", type=Path, default=FILE, metavar="PATH", help="the saved counts (default %(default)s)"
    )
    parser.add_argument("--changelog", type=Path, default=CHANGELOG, metavar="PATH", help="(default %(default)s)")


def run(args: argparse.Namespace, directions: Sequence[Direction], log: Callable[[str], None]) -> int:
    """Run the command. Returns 0, 1 if the check failed, 2 if it cannot run."""
    if not callgrind.available():
        log(callgrind.MISSING)
        return 2
    if args.save and args.python != sys.executable:
        log("--save is for the tree of this command: leave out --python")
        return 2
    kinds = [GATEWAY, PASS] if args.no_floor else [GATEWAY, PASS, FLOOR]
    counts = measure(_subjects(directions, kinds, args.python), log)
    rows = collect(counts, directions, args.python)
    base = {}
    if args.against:
        others = [Subject(GATEWAY, direction, args.against) for direction in directions]
        base = collect({**counts, **measure(others, log)}, directions, args.against)
    print(table(rows, directions, base).markdown())
    if args.save:
        saved.Table.here(rows).save(args.file)
        log(f"saved in {args.file}")
    return check(rows, args.file, args.changelog, log) if args.check else 0


def _subjects(directions: Sequence[Direction], kinds: Iterable[str], python: str) -> list[Subject]:
    found: dict[Subject, None] = {}
    for kind in kinds:
        for client, upstream in directions:
            if kind == GATEWAY:
                found[Subject(kind, (client, upstream), python)] = None
            elif kind == PASS:
                found[Subject(kind, (upstream, upstream))] = None
            elif client != upstream and upstream in DIALECTS:
                found[Subject(kind, (client, upstream))] = None
    return list(found)


def collect(counts: Mapping[Subject, Counts], directions: Sequence[Direction], python: str) -> dict[str, Row]:
    """Return the rows by name, from the counts of the gateway and of the references."""
    rows = {}
    for name in ROWS:
        for client, upstream in directions:
            if (own := counts[Subject(GATEWAY, (client, upstream), python)].get(name)) is None:
                continue
            passed = counts[Subject(PASS, (upstream, upstream))][name]
            floor = counts.get(Subject(FLOOR, (client, upstream)), {}).get(name)
            rows[f"{name} {client}-{upstream}"] = Row(own, passed, floor)
    return rows


def table(rows: Mapping[str, Row], directions: Sequence[Direction], base: Mapping[str, Row]) -> Table:
    """Return a table with a line for each direction. With `base`, it has the ratios to that tree's counts."""
    head = ["client-upstream"]
    for name in ROWS:
        head += [name, "× pass"]
        head += ["× floor"] if any(row.floor for key, row in rows.items() if key.startswith(f"{name} ")) else []
        head += ["× other"] if base else []
    lines = []
    for client, upstream in directions:
        line = [f"{client}-{upstream}"]
        for name in ROWS:
            key = f"{name} {client}-{upstream}"
            row = rows.get(key)
            line += ["–", "–"] if row is None else [f"{row.instructions / 1000:,.1f}k", f"{row.ratio:.2f}"]
            if any(other.floor for at, other in rows.items() if at.startswith(f"{name} ")):
                line.append("–" if row is None or row.floor_ratio is None else f"{row.floor_ratio:.2f}")
            if base:
                line.append("–" if row is None else f"{row.instructions / base[key].instructions:.3f}")
        lines.append(line)
    return Table(head, lines, names=1)


def check(rows: Mapping[str, Row], file: Path, changelog: Path, log: Callable[[str], None]) -> int:
    """Compare with the saved rows. Returns 1 if rows grew that the changelog does not list, or cannot be compared."""
    advice = f"`python -m dragoman_bench instructions --save` writes {file}"
    try:
        before = saved.load(file)
    except (OSError, ValueError) as error:
        log(f"no saved counts: {error}; {advice}")
        return 1
    now = saved.Table.here(rows)
    if other := saved.other_interpreter(before, now):
        log(f"not compared with {file}, {other}: use --against with the interpreter of a tree of {before.commit}")
        return 0
    if other := saved.other_packages(before, now):
        log(f"the counts were saved with other packages: {other}; {advice}")
        return 1
    found = saved.compare(before.rows, rows, saved.listed(changelog.read_text()))
    _report(found, before.commit, log)
    if found.new:
        log(f"not in the saved counts: {', '.join(found.new)}; {advice}")
    if found.grown:
        example = next(iter(found.grown))
        text = f"`{example}` {rows[example].ratio:.2f} ×"
        log(f"{len(found.grown)} rows grew by more than {GROWTH:.0%}: reduce them, or list each in {changelog}: {text}")
    return 1 if found.grown or found.new else 0


def _report(found: Comparison, commit: str, log: Callable[[str], None]) -> None:
    kinds = (("grew", found.grown), ("grew as listed", found.listed), ("shrank, save them", found.shrunk))
    for word, lines in kinds:
        if lines:
            log(f"since {commit} {word}:")
            for line in lines.values():
                log(f"  {line}")
