"""The two stages of the tests: a sample of everything, then a larger one; and all of it, on demand.

    pytest -n auto             the first stage
    pytest -n auto -m whole    the second one
    pytest -n auto -m ""       all rows of all tests

- A test marked `whole` is left to the second stage.
- The rows of a test are those of its `parametrize`. Both stages together run each value of each `parametrize`, each
  pair of client and upstream, and each pair of values of two parameters. The first one runs rows with most values.
- The stages run at most `FIRST` and `SECOND` rows of a test, spread evenly; the second one also those that a sample of
  `BOTH` rows has more, and each direction. Tests marked `every_row`, the goldens, run with all rows in the first stage.
- Of a test marked `few`, whose rows take long, the first stage runs at most `FEW` rows, and not each direction.
- Of a test marked `turns`, the first stage runs one row: of a module's first test the first one, of its second test the
  second one, and so on, so that each row is run with some of the tests.
- A law is a Hypothesis test, or one that is marked `law` and uses `some`. It runs in both stages, in the first one with
  few examples.
- With `-m ""`, all rows run, and the laws as in the second stage.

`conftest.py` marks the rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WHOLE = "whole"
FIRST = 6
"""Rows of a test in the first stage."""
BOTH = 12
"""Rows of a test with most values, in one of both stages."""
FEW = 4
"""Rows of a test marked `few` in the first stage: one for each dialect of upstreams."""
SECOND = 68
"""Rows of a test that the second stage adds."""
DIRECTION = ("client", "upstream")
"""Parameters that are one value, if they are parametrized apart from each other."""
SIMPLE = (str, bytes, int, type(None))
"""Values that are the same if they are equal; others are the same if they are one object."""
GOLDEN = 0.618033988749895
"""The golden ratio: its multiples are spread evenly over their fractions, however many are taken."""


_expression = ""
_turns: Counter[Path] = Counter()


def choose(expression: str) -> str:
    """Set the stage by pytest's expression of marks, and return the Hypothesis profile for it."""
    global _expression
    _expression = expression
    return os.environ.get("DRAGOMAN_HYPOTHESIS", WHOLE if many_examples() else "sample")


def is_second() -> bool:
    """True in the second stage."""
    return _expression == WHOLE


def many_examples() -> bool:
    """True where laws have many examples: in the second stage, and where all rows run."""
    return _expression in (WHOLE, "")


def some(values: Sequence[T], most: int) -> Sequence[T]:
    """Return all values where laws have many examples, else at most so many, spread evenly."""
    return values if many_examples() else some_of(values, most)


def some_of(values: Sequence[T], most: int) -> Sequence[T]:
    """Return at most so many of the values, spread evenly."""
    return values if len(values) <= most else [values[at * len(values) // most] for at in range(most)]


def sample(cases: Sequence[Iterable[Hashable]], most: int | None = None) -> set[int]:
    """Return the positions of cases in which each value of all cases occurs, or of `most` cases with many values.

    The case with most values that are still missing is taken next, and of several one that is far from those taken: the
    result is always the same.
    """
    values = [frozenset(case) for case in cases]
    missing = set().union(*values)
    taken: set[int] = set()
    next_ones = [(-len(each), position * GOLDEN % 1, position) for position, each in enumerate(values)]
    heapify(next_ones)
    while missing and len(taken) != most:
        counted, spread, position = heappop(next_ones)
        now = -len(values[position] & missing)
        if now == counted:
            taken.add(position)
            missing -= values[position]
        elif now:
            heappush(next_ones, (now, spread, position))
    return taken


def first_rows(cases: Sequence[Sequence[Hashable]]) -> set[int]:
    """Return the positions of the cases that the first stage runs: a sample of at most `FIRST`."""
    return sample(cases, FIRST)


def both_rows(cases: Sequence[Sequence[Hashable]]) -> set[int]:
    """Return the positions of cases of either stage: a sample of at most `BOTH`, and each direction."""
    return sample(cases, BOTH) | sample([case[-1:] for case in cases])


def second_rows(parameters: Sequence[Mapping[str, object]], first: set[int]) -> set[int]:
    """Return the positions of the rows that the second stage adds to those given.

    Each pair of values of two parameters is in one of both, unless that takes more than `SECOND` rows.
    """
    pairs = [set(combinations(given(row), min(2, len(row)))) for row in parameters]
    seen = set().union(*(pairs[position] for position in first))
    return sample([each - seen for each in pairs], SECOND)


def turn(module: Path, rows: int) -> int:
    """Return the position of the row that the next test of a module runs with."""
    _turns[module] += 1
    return (_turns[module] - 1) % rows


def values_of(rows: Sequence[str], parameters: Mapping[str, object]) -> list[Hashable]:
    """Return the values that a sample must have of a row: its ids, its parameters' values, and last its direction."""
    return [*enumerate(rows), *given(parameters), direction_of(parameters)]


def given(parameters: Mapping[str, object]) -> list[Hashable]:
    """Return the names and values of parameters, by name."""
    return [(name, each if isinstance(each, SIMPLE) else id(each)) for name, each in sorted(parameters.items())]


def direction_of(parameters: Mapping[str, object]) -> Hashable:
    """Return the client and the upstream of a row, as far as it has them."""
    return (DIRECTION, tuple(str(parameters[name]) for name in DIRECTION if name in parameters))
