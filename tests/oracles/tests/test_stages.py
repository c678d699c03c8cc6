"""The sample of a matrix (`support.stages`)."""

from __future__ import annotations

import itertools
from pathlib import Path

from support.stages import sample, turn, values_of


def test_each_row_of_each_parametrize_is_in_the_sample() -> None:
    cases = [values_of(rows, {}) for rows in itertools.product("abcd", "xyz")]
    assert sorted(sample(cases)) == [0, 4, 8, 9]


def test_each_direction_is_in_the_sample() -> None:
    ways = list(itertools.product("cmr", "cmr", "vwxyz"))
    taken = sample([values_of(way, {"client": way[0], "upstream": way[1], "kind": way[2]}) for way in ways])
    assert {ways[position][:2] for position in taken} == set(itertools.product("cmr", "cmr"))
    assert {ways[position][2] for position in taken} == set("vwxyz")
    assert len(taken) == 9


def test_a_test_with_one_parametrize_is_whole() -> None:
    assert sample([values_of([str(number)], {"value": 1}) for number in range(7)]) == set(range(7))
    assert sample([]) == set()


def test_tests_that_take_turns_run_with_each_row() -> None:
    one, other = Path("one"), Path("other")
    assert [turn(one, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert [turn(other, 2), turn(one, 3), turn(other, 2)] == [0, 1, 1]
