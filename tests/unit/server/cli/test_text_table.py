"""Tables of text that fit the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.cli.text_table import (
    LEAST,
    WIDTH,
    blocks,
    cut,
    line_width,
    short_number,
    table,
    text_width,
    wrapped,
)

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=200)


def test_a_table_is_as_wide_as_its_cells() -> None:
    assert table(("name", "count"), [("a", "1,000"), ("bob", "2")], 1, 80) == [
        "name  count",
        "a     1,000",
        "bob       2",
    ]


def test_names_are_cut_the_longest_first() -> None:
    assert table(("name", "other", "count"), [("a" * 30, "short", "1")], 2, 30) == [
        "name              other  count",
        "aaaaaaaaaaaaaaa…  short      1",
    ]
    assert table(("name", "count"), [("a" * 30, "1" * 30)], 1, 30) is None
    assert table(("name", "count"), [("a" * 30, "1" * (28 - LEAST))], 1, 30) == [
        f"name    {'count':>22}",
        f"aaaaa…  {'1' * 22}",
    ]


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**9).map(str)), max_size=5), st.integers(40, 120))
def test_no_line_is_wider_than_allowed(rows: list[tuple[str, str, str]], width: int) -> None:
    titles = ("name", "other", "count")
    lines = table(titles, rows, 2, width)
    assert lines is not None
    assert max(map(text_width, [*lines, *blocks(titles, rows, width)])) <= width


@given(NAMES, st.integers(8, 100))
def test_a_text_is_cut_and_wrapped(text: str, width: int) -> None:
    assert text_width(cut(text, width)) <= width
    assert all(text_width(line) <= width for line in wrapped(text, width))


def test_wide_characters_take_two_columns() -> None:
    assert text_width("日本e\u0301") == 5
    assert cut("日本語", 5) == "日本…"
    assert cut("日本語", 4) == "日…"


def test_blocks() -> None:
    assert blocks(("key", "count"), [("ada", "1"), ("", "2")], 80) == [
        "key    ada",
        "count  1",
        "",
        "key",
        "count  2",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (12_345, "12.3k"), (999_999, "1M"), (45_600_000, "45.6M")],
)
def test_short_numbers(number: int, text: str) -> None:
    assert short_number(number) == text


def test_lines_are_80_wide_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert line_width() == WIDTH == 80
