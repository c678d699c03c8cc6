"""The page of what failed elsewhere: every entry is there, every test that it names is a test and names its number."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from regressions.table import GROUPS, PAGE, TESTS, Failure, page, read

FAILURES = read()
ENTRIES = 113
NUMBERS = {
    f"T-{number:02}"
    for first, last in ((1, 6), (10, 17), (20, 28), (30, 31), (40, 47), (50, 51), (60, 62), (70, 78), (80, 81))
    for number in range(first, last + 1)
}

each = pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: f"{failure.entry}-{failure.ids[0]}")


@cache
def _tests(file: str) -> dict[str, str]:
    """Return what pytest collects of a file, by name: the name and the docstring of each."""
    path = TESTS / file
    assert path.name.startswith("test_"), f"pytest does not look into {file}"
    assert path.is_file(), f"there is no {file}"
    collected: dict[str, str] = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            collected[node.name] = f"{node.name} {ast.get_docstring(node) or ''}"
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test_"):
                    noted = f"{inner.name} {ast.get_docstring(inner) or ''}"
                    collected[f"{node.name}::{inner.name}"] = noted
    return collected


def test_every_entry_is_there_once() -> None:
    assert [failure.entry for failure in FAILURES] == list(range(1, ENTRIES + 1))


def test_every_number_is_there_and_no_other() -> None:
    assert {number for failure in FAILURES for number in failure.ids} == NUMBERS


def test_every_number_belongs_to_a_group() -> None:
    for number in NUMBERS:
        assert len([group for group, (first, last) in GROUPS.items() if first <= number <= last]) == 1, number


@each
def test_an_entry_has_a_test_or_states_what_it_needs(failure: Failure) -> None:
    assert failure.tests or failure.open
    assert not failure.open or failure.open.startswith("needs ")
    assert failure.reports
    assert len(set(failure.tests)) == len(failure.tests)


@each
def test_every_test_that_an_entry_names_exists_and_names_its_number(failure: Failure) -> None:
    for test in failure.tests:
        file, _, name = test.partition("::")
        collected = _tests(file)
        assert name in collected, f"there is no {test}"
        spellings = [form for number in failure.ids for form in (number, number.replace("-", "") + "_")]
        assert any(form in collected[name] for form in spellings), f"{test} does not name {failure.ids}"


def test_every_number_of_an_entry_has_a_test_of_its_own() -> None:
    """One that is stated to be tested by another number's test only would be forgotten the day that one changes."""
    for failure in FAILURES:
        noted = " ".join(_tests(test.partition("::")[0])[test.partition("::")[2]] for test in failure.tests)
        missing = [
            number for number in failure.ids if number not in noted and f"{number.replace('-', '')}_" not in noted
        ]
        assert not missing or failure.open, f"{failure.entry}: {missing}"


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text("utf-8") == page(FAILURES), "run `python tests/regressions/table.py --write`"


def test_words_of_the_page_do_not_break_its_tables() -> None:
    rows = [line for line in page(FAILURES).splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
