"""The sample of a matrix (`support.stages`)."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.paths import ROOT
from support.stages import BOTH, FEW, FIRST, SECOND, both_rows, first_rows, given, sample, second_rows, turn, values_of


def test_each_row_of_each_parametrize_is_in_the_sample() -> None:
    cases = [values_of(rows, {}) for rows in itertools.product("abcd", "xyz")]
    taken = [divmod(position, 3) for position in sample(cases)]
    assert len(taken) == 4
    assert [{*column} for column in zip(*taken, strict=True)] == [{0, 1, 2, 3}, {0, 1, 2}]


def test_each_direction_is_in_the_sample() -> None:
    ways = list(itertools.product("cmr", "cmr", "vwxyz"))
    taken = sample([values_of(way, {"client": way[0], "upstream": way[1], "kind": way[2]}) for way in ways])
    assert {ways[position][:2] for position in taken} == set(itertools.product("cmr", "cmr"))
    assert {ways[position][2] for position in taken} == set("vwxyz")
    assert len(taken) <= 10


def test_a_test_with_one_parametrize_is_whole() -> None:
    assert sample([values_of([str(number)], {"value": 1}) for number in range(7)]) == set(range(7))
    assert sample([]) == set()


def test_of_many_rows_some_are_taken_and_each_direction() -> None:
    ways = [(client, upstream, str(row)) for client in "cmr" for upstream in "cmrg" for row in range(300)]
    ways.append(("r", "other", "0"))
    cases = [values_of(way, {"client": way[0], "upstream": way[1]}) for way in ways]
    first, taken = first_rows(cases), both_rows(cases)
    assert len(first) == FIRST
    assert first <= taken
    assert BOTH <= len(taken) <= BOTH + 13
    assert {ways[position][:2] for position in taken} == {way[:2] for way in ways}
    rows = sorted(int(ways[position][2]) for position in taken)
    assert rows[-1] > 150


def test_each_pair_of_values_is_in_one_of_the_stages() -> None:
    names = ("client", "upstream", "kind", "whole")
    ways = [dict(zip(names, way, strict=True)) for way in itertools.product("cmr", "cmr", "vwxyz", (False, True))]
    first = both_rows([values_of([str(value) for value in way.values()], way) for way in ways])
    second = second_rows(ways, first)
    taken = [ways[number] for number in first | second]
    for one, other in itertools.combinations(names, 2):
        assert {(way[one], way[other]) for way in taken} == {(way[one], way[other]) for way in ways}
    assert not first & second
    assert len(taken) <= 24
    assert len(second_rows(ways, set())) <= 20


def test_objects_are_one_value_if_they_are_one_object() -> None:
    one, other = [1], [1]
    assert given({"a": one}) == given({"a": one}) != given({"a": other})
    assert given({"a": "x", "b": one}) == given({"b": one, "a": "x"}) != given({"a": "y", "b": one})


def test_the_second_stage_adds_some_of_many_rows() -> None:
    rows = [{"a": number} for number in range(300)]
    second = second_rows(rows, both_rows([values_of([str(row)], row) for row in rows]))
    assert len(second) == SECOND
    assert max(second) > 285


MATRIX = """
import pytest

SEEN = [pytest.param(3, marks=pytest.mark.whole), 4]

@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(2))
def test_matrix(a, b): ...

@pytest.mark.every_row
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(2))
def test_golden(a, b): ...

@pytest.mark.law
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(2))
def test_law(a, b): ...

@pytest.mark.parametrize("a", SEEN)
def test_marked(a): ...

@pytest.mark.whole
@pytest.mark.parametrize("a", range(3))
def test_long(a): ...

@pytest.mark.turns
@pytest.mark.parametrize("a", range(3))
def test_turn(a): ...

@pytest.mark.few
@pytest.mark.parametrize("a", range(6))
def test_few(a): ...

@pytest.mark.few
@pytest.mark.law
@pytest.mark.parametrize("a", range(6))
def test_fewlaw(a): ...

@pytest.mark.parametrize("a", range(300))
def test_many(a): ...
"""
ROWS = {"matrix": 6, "golden": 6, "law": 6, "marked": 2, "long": 3, "turn": 3, "few": 6, "fewlaw": 6, "many": 300}
IN_FIRST = {"matrix": 3, "golden": 6, "law": 3, "marked": 1, "turn": 1, "few": FEW, "fewlaw": FEW, "many": FIRST}
IN_SECOND = {"matrix": 3, "law": 6, "marked": 1, "long": 3, "turn": 2, "few": 6 - FEW, "fewlaw": 6}
IN_SECOND |= {"many": BOTH - FIRST + SECOND}


@pytest.mark.turns
@pytest.mark.parametrize(("expression", "expected"), [("not whole", IN_FIRST), ("whole", IN_SECOND), ("", ROWS)])
def test_pytest_collects_the_rows_of_a_stage(tmp_path: Path, expression: str, expected: dict[str, int]) -> None:
    """A row is in one stage at most, but for laws, which are in both."""
    (tmp_path / "test_it.py").write_text(MATRIX)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-c", str(ROOT / "pyproject.toml"), "-m", expression]
    command += ["-p", "conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, timeout=99, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(re.findall(r"::test_(\w+)\[", done.stdout)) == expected


def test_tests_that_take_turns_run_with_each_row() -> None:
    one, other = Path("one"), Path("other")
    assert [turn(one, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert [turn(other, 2), turn(one, 3), turn(other, 2)] == [0, 1, 1]
