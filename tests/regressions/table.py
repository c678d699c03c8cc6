"""`python tests/regressions/table.py`: print what users of other gateways reported, and the tests that hold it here.

`--write` writes it to docs/reference/peer-failures.md. The data is in failures.toml next to this.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
DATA = Path(__file__).with_name("failures.toml")
PAGE = TESTS.parent / "docs/reference/peer-failures.md"

GROUPS = {
    "A. Calls: indexes and interleaving": ("T-01", "T-06"),
    "B. Thinking, signatures, reasoning": ("T-10", "T-17"),
    "C. The life of a stream": ("T-20", "T-28"),
    "D. Token counts": ("T-30", "T-31"),
    "E. Requests that upstreams refused": ("T-40", "T-47"),
    "F. Codex and free-text tools": ("T-50", "T-51"),
    "G. Side endpoints": ("T-60", "T-62"),
    "H. Transport and load": ("T-70", "T-78"),
    "I. Prompt caches": ("T-80", "T-81"),
}
"""First and last number of each group."""

_HEAD = """\
# What failed elsewhere

<!-- Made by `python tests/regressions/table.py --write` from tests/regressions/failures.toml: do not edit. -->

This page lists failures that users of other gateways, clients and servers reported in public, and the tests that
cover them here. The numbers are ours. A test for a number has it in its name (`test_T23_…`) or in its docstring, and
runs in every direction that it concerns. `pytest tests -k T23` runs the tests of one number. Anything not covered yet
is listed under *Open*.
"""


_COLUMNS = ("| | number | reported | what they saw | tests |", "|---|---|---|---|---|")


@dataclass(frozen=True, slots=True)
class Failure:
    """One entry: `ids` are its numbers (T-nn), `reports` public issues, `tests` node ids below tests/.

    `open` states what of it needs work that is still to come, or is empty.
    """

    entry: int
    ids: tuple[str, ...]
    reports: tuple[str, ...]
    stated: str
    tests: tuple[str, ...]
    open: str = ""


def read(path: Path = DATA) -> list[Failure]:
    """The entries of the data file, in its order. Raises TypeError for an unknown key."""
    failures = []
    for row in tomllib.loads(path.read_text("utf-8"))["failure"]:
        fields: dict[str, Any] = {name: tuple(value) if type(value) is list else value for name, value in row.items()}
        failures.append(Failure(**fields))
    return failures


def page(failures: Sequence[Failure]) -> str:
    """The page in Markdown."""
    tests = {test for failure in failures for test in failure.tests}
    numbers = {number for failure in failures for number in failure.ids}
    left = [failure for failure in failures if failure.open]
    parts = [
        _HEAD,
        f"{len(failures)} entries under {len(numbers)} numbers, {len(tests)} named tests, {len(left)} entries with "
        "something open.\n",
    ]
    for group, (first, last) in GROUPS.items():
        rows = [_row(failure) for failure in failures if first <= failure.ids[0] <= last]
        parts.append("\n".join([f"## {group}\n", *_COLUMNS, *rows, ""]))
    listed = [f"- {failure.entry} ({', '.join(failure.ids)}): {failure.open}." for failure in left]
    parts.append("\n".join(["## Open\n", *(listed or ["Nothing."]), ""]))
    return "\n".join(parts)


def _row(failure: Failure) -> str:
    reports = "<br>".join(map(_linked, failure.reports))
    cells = [str(failure.entry), " ".join(failure.ids), reports, failure.stated, _named(failure.tests) or "open"]
    return f"| {' | '.join(cells)} |"


def _linked(report: str) -> str:
    repository, _, number = report.partition("#")
    return f"[{report}](https://github.com/{repository}/issues/{number})"


def _named(tests: Sequence[str]) -> str:
    """The tests under their files."""
    files: dict[str, list[str]] = {}
    for test in tests:
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(f"`{name}`")
    return "<br>".join(f"{file}: {', '.join(names)}" for file, names in files.items())


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write it to {PAGE.relative_to(TESTS.parent)}")
    if parser.parse_args().write:
        PAGE.write_text(page(read()), "utf-8")
    else:
        print(page(read()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
