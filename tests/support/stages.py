"""The two stages of the tests: a sample of everything, and the rest.

    pytest -n auto             the first stage
    pytest -n auto -m whole    the second one

- A test marked `whole` is left to the second stage.
- A matrix is a test with several `parametrize`. The first stage runs as many of its rows as are needed for each value
  of each `parametrize`, and each pair of client and upstream.
- Of a test that has more than `MOST` rows after that, the first stage runs so many, spread evenly. A test marked
  `every_row` is neither a matrix nor cut: the goldens.
- Of a test marked `turns`, the first stage runs one row: of a module's first test the first one, of its second test the
  second one, and so on, so that each row is run with some of the tests.
- A law is a Hypothesis test, or one that is marked `law` and uses `some`. It runs in both stages, in the first one with
  few examples.

`conftest.py` marks the rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WHOLE = "whole"
MOST = 80
"""Rows of a test in the first stage."""
DIRECTION = ("client", "upstream")
"""Parameters that are one value, if they are parametrized apart from each other."""


_stage = ""
_turns: Counter[Path] = Counter()


def choose(expression: str) -> str:
    """Set the stage by pytest's expression of marks, and return the Hypothesis profile for it."""
    global _stage
    _stage = WHOLE if expression == WHOLE else "sample"
    return os.environ.get("DRAGOMAN_HYPOTHESIS", _stage)


def is_second() -> bool:
    """True in the second stage."""
    return _stage == WHOLE


def some(values: Sequence[T], most: int) -> Sequence[T]:
    """Return all values in the second stage, and in the first one at most so many, spread evenly."""
    return values if is_second() else some_of(values, most)


def some_of(values: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of the values, spread evenly."""
    return values if len(values) <= most else [values[at * len(values) // most] for at in range(most)]


def sample(cases: Sequence[Iterable[Hashable]]) -> set[int]:
    """Return the positions of cases in which each value of all cases occurs.

    The case with most values that are still missing is taken next, the first one of several: the result is always the
    same.
    """
    values = [frozenset(case) for case in cases]
    missing = set().union(*values)
    taken: set[int] = set()
    while missing:
        best = max(range(len(values)), key=lambda position: len(values[position] & missing))
        taken.add(best)
        missing -= values[best]
    return taken


def first_rows(cases: Sequence[Iterable[Hashable]], directions: Sequence[Hashable]) -> set[int]:
    """Return the positions of the cases that the first stage runs: a sample of at most `MOST`, and each direction."""
    taken = sorted(sample(cases))
    if len(taken) <= MOST:
        return set(taken)
    return {*some_of(taken, MOST), *sample([[direction] for direction in directions])}


def turn(module: Path, rows: int) -> int:
    """Return the position of the row that the next test of a module runs with."""
    _turns[module] += 1
    return (_turns[module] - 1) % rows


def values_of(rows: Sequence[str], parameters: Mapping[str, object]) -> list[Hashable]:
    """Return the values of a row that a sample must have: the id in each `parametrize`, and the direction."""
    return [*enumerate(rows), direction_of(parameters)]


def direction_of(parameters: Mapping[str, object]) -> Hashable:
    """Return the client and the upstream of a row, as far as it has them."""
    return (DIRECTION, tuple(str(parameters[name]) for name in DIRECTION if name in parameters))
