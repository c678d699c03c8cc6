"""`python tests/conformance/matrix.py`: play every case in every direction and print the matrix as Markdown.

A cell that fails is a ✗ with its reason below the table, and the exit status is 1. `--plan` prints the table of
without playing anything: that is docs/reference/test-matrix.md, and `--write` writes it there.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/test-matrix.md"
sys.path.insert(0, str(ROOT / "tests"))  # As a script its own folder is there instead.

from conformance.cases import CASES, DIRECTIONS, MODES, Case, cells  # noqa: E402
from conformance.rounds import play  # noqa: E402
from conformance.served import serving, speaking  # noqa: E402

Cell = tuple[str, str, str, str]
"""Case name, client, upstream, mode."""

_HEAD = """\
# Test matrix

<!-- Made by `python tests/conformance/matrix.py --write`: do not edit. -->

Each cell tests one case in one direction, through a live gateway and a simulated upstream over real sockets. The
vendors' own SDKs are the clients. Every event is validated by the SDK's types, the deltas are compared with what its
accumulator holds at the end, and the upstream's request is compared with the client's.

Each cell is *streamed / whole*. A streamed reply is read twice, by the SDK's helper and by its plain iterator. The
cells are tests (`pytest tests/conformance/test_conformance_matrix.py`). `python tests/conformance/matrix.py` runs all
of them and prints this table with the results.

"""


def page(seen: Mapping[Cell, str | None] | None = None) -> str:
    """The page. `seen` has None for each cell that held and the reason for each that did not; without it all hold."""
    notes: dict[str, int] = {}
    rows = [["client → upstream", *(f"{client} → {upstream}" for client, upstream in DIRECTIONS)]]
    rows.append(["---"] * len(rows[0]))
    for case in CASES:
        columns = [
            " / ".join(_mark(case, client, upstream, mode, notes, seen) for mode in MODES)
            for client, upstream in DIRECTIONS
        ]
        rows.append([case.name, *columns])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    noted = "\n".join(f"{number}. {note}" for note, number in notes.items())
    failed = "\n".join(f"- {' · '.join(cell)}: {why}" for cell, why in (seen or {}).items() if why)
    return f"{_HEAD}{table}\n\n{noted}\n" + (f"\n## Failed\n\n{failed}\n" if failed else "")


def _mark(
    case: Case, client: str, upstream: str, mode: str, notes: dict[str, int], seen: Mapping[Cell, str | None] | None
) -> str:
    absent, differs = case.absent(client, upstream, mode), case.differs(client, upstream, mode)
    note = absent or differs
    number = f"<sup>{notes.setdefault(note, len(notes) + 1)}</sup>" if note else ""
    if absent:
        return f"n/a{number}"
    return ("✗" if seen and seen[case.name, client, upstream, mode] else "✓") + number


async def run() -> dict[Cell, str | None]:
    """Play every cell that is not empty."""
    seen: dict[Cell, str | None] = {}
    async with serving(verify=True) as served, speaking(served.url) as speakers:
        for case, client, upstream, mode in cells():
            why = None
            try:
                for script in case.scripts:
                    speaker = speakers[client]
                    case.judge(await play(served, speaker, upstream, mode, script, case.ask, answered=case.answered))
            except Exception as error:  # Whatever it is, the other cells are played too.
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
            seen[case.name, client, upstream, mode] = why
    return seen


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plan", action="store_true", help="print the table without playing anything")
    parser.add_argument("--write", action="store_true", help=f"write it to {PAGE.relative_to(ROOT)}, without playing")
    given = parser.parse_args()
    if given.write:
        PAGE.write_text(page(), "utf-8")
        return 0
    seen = None if given.plan else asyncio.run(run())
    print(page(seen), end="")
    return int(any((seen or {}).values()))


if __name__ == "__main__":
    sys.exit(main())
